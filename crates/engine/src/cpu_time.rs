// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel counts of a thread's processor time.

/// What the kernel counts of a thread: nanoseconds it ran, and nanoseconds it waited for a processor.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// Nanoseconds that it ran.
    pub ran: u64,
    /// Nanoseconds that it waited for a processor.
    pub waited: u64,
}

impl Used {
    /// The account of one of our threads; `None` if it is gone, or the kernel keeps none.
    pub fn of(thread: u32) -> Option<Used> {
        Used::parse(&std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?)
    }

    /// From the text of the kernel's file.
    pub(crate) fn parse(text: &str) -> Option<Used> {
        let mut numbers = text.split_ascii_whitespace().map(|n| n.parse().ok());
        Some(Used { ran: numbers.next()??, waited: numbers.next()?? })
    }
}

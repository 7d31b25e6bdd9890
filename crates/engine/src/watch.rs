// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors and times that a worker waits for.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use element::ElementId;

/// The longest sleep, a bound on the harm of a wake-up that a driver forgot to give.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Of the alarm's events; of descriptors' they are their numbers.
const ALARM: Token = Token(usize::MAX - 1);

/// Waits for descriptors, and to the microsecond: epoll itself counts milliseconds, and rounds up.
#[derive(Debug)]
pub(crate) struct Poll {
    poll: mio::Poll,
    /// Where the kernel gives none, waits are in milliseconds.
    alarm: Option<OwnedFd>,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Poll> {
        let poll = mio::Poll::new()?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let alarm = timerfd_create(TimerfdClockId::Monotonic, flags).ok().filter(|alarm| {
            poll.registry().register(&mut SourceFd(&alarm.as_raw_fd()), ALARM, Interest::READABLE).is_ok()
        });
        Ok(Poll { poll, alarm })
    }

    pub(crate) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Waits until one is ready, at most so long. It may also end before.
    pub(crate) fn poll(&mut self, events: &mut Events, timeout: Duration) -> io::Result<()> {
        if let Some(alarm) = &self.alarm
            && !timeout.is_zero()
            && timeout < LONGEST_SLEEP
        {
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            let once = Itimerspec {
                it_interval: never,
                it_value: Timespec { tv_nsec: timeout.subsec_nanos().into(), ..never },
            };
            timerfd_settime(alarm, TimerfdTimerFlags::empty(), &once)?;
        }
        self.poll.poll(events, Some(timeout))
    }
}

/// A descriptor that is watched, or will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Its number.
    pub fd: RawFd,
    /// For reading, for writing.
    pub interest: (bool, bool),
    /// Whose it is.
    pub element: ElementId,
    /// Whether to call that element; its task finds the work otherwise.
    pub calls: bool,
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use mio::Waker;

    use super::*;

    /// However busy the machine, one wait of so many is not interrupted; by milliseconds none could be below one.
    #[test]
    fn waits_to_the_microsecond() {
        let (mut watched, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(4));
        let exact = (0..10_000).any(|_| {
            let begun = Instant::now();
            watched.poll(&mut events, Duration::from_micros(100)).expect("waited");
            let took = begun.elapsed();
            assert!(took >= Duration::from_micros(100), "{took:?}");
            took < Duration::from_micros(900)
        });
        assert!(exact);
    }

    #[test]
    fn a_wait_ends_when_somebody_calls() {
        let (mut watched, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(4));
        let waker = Waker::new(watched.registry(), Token(7)).expect("a waker");
        for timeout in [Duration::from_secs(3600), LONGEST_SLEEP / 2] {
            waker.wake().expect("woken");
            watched.poll(&mut events, timeout).expect("waited");
            assert!(events.iter().any(|event| event.token() == Token(7)), "{events:?}");
        }
    }
}

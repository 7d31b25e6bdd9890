// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the kernel, in records of 32 bytes like those of threads.

/// Bytes of a record.
pub const KERNEL_EVENT_BYTES: usize = 32;

sync::numbered_kinds! {
    /// What happened.
    pub enum KernelKind: u16 {
        /// A processor went from one thread to another: `a` is the state in which the first was left, `b` the second.
        Switch = 1 "sched_switch",
        /// Thread `a` may run again, on processor `b`.
        Wakeup = 2 "sched_wakeup",
        /// The handler of interrupt `a` began.
        IrqBegin = 3 "irq_begin",
        /// It ended.
        IrqEnd = 4 "irq_end",
        /// Softirq `a` began.
        SoftirqBegin = 5 "softirq_begin",
        /// It ended.
        SoftirqEnd = 6 "softirq_end",
        /// A device was polled: `a` packets of at most `b`.
        NapiPoll = 7 "napi_poll",
        /// An XDP program on interface `b` failed, or its verdict `a` could not be carried out.
        XdpException = 8 "xdp_exception",
        /// A lock of the kernel, `c`, was not free; `a` says of what kind it is.
        ContentionBegin = 9 "contention_begin",
        /// It was taken, or given up.
        ContentionEnd = 10 "contention_end",
        /// A thread called `futex` on address `c` to do `a`.
        FutexBegin = 11 "futex_begin",
        /// The call ended.
        FutexEnd = 12 "futex_end",
        /// Thread `a` was moved from processor `b` to `c`.
        Migrate = 13 "migrate",
    }
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEvent {
    /// When, on the monotonic clock.
    pub at_ns: u64,
    /// What.
    pub kind: KernelKind,
    /// On which processor.
    pub cpu: u16,
    /// The thread that ran there.
    pub thread: u32,
    /// Depends on the kind.
    pub a: u32,
    /// Depends on the kind.
    pub b: u32,
    /// Depends on the kind.
    pub c: u64,
}

impl KernelEvent {
    /// As it lies in files.
    pub fn to_bytes(self) -> [u8; KERNEL_EVENT_BYTES] {
        let KernelEvent { at_ns, kind, cpu, thread, a, b, c } = self;
        let what = kind as u64 | u64::from(cpu) << 16 | u64::from(thread) << 32;
        let words = [at_ns, what, u64::from(a) | u64::from(b) << 32, c];
        let mut bytes = [0; KERNEL_EVENT_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From four words of a file; `None` if no kind has this number.
    pub fn from_words([at_ns, what, ab, c]: [u64; 4]) -> Option<KernelEvent> {
        let kind = KernelKind::of_number(what as u16)?;
        let (cpu, thread) = ((what >> 16) as u16, (what >> 32) as u32);
        Some(KernelEvent { at_ns, kind, cpu, thread, a: ab as u32, b: (ab >> 32) as u32, c })
    }
}

/// What a softirq of this number does.
pub fn softirq_name(number: u32) -> &'static str {
    const NAMES: [&str; 10] =
        ["hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu"];
    NAMES.get(number as usize).copied().unwrap_or("other")
}

/// What a call of `futex` does (futex(2)), whether or not its word is private to a process.
pub fn futex_name(op: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "wait",
        "wake",
        "fd",
        "requeue",
        "cmp_requeue",
        "wake_op",
        "lock_pi",
        "unlock_pi",
        "trylock_pi",
        "wait_bitset",
        "wake_bitset",
        "wait_requeue_pi",
        "cmp_requeue_pi",
        "lock_pi2",
    ];
    // FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
    NAMES.get((op & !0x180) as usize).copied().unwrap_or("other")
}

/// Of what kind a lock of the kernel is that was not free (`LCB_F_*` of its trace/events/lock.h).
pub fn lock_name(flags: u32) -> String {
    const NAMES: [&str; 6] = ["spin", "read", "write", "realtime", "percpu", "mutex"];
    let names = NAMES.iter().enumerate().filter(|(bit, _)| flags >> bit & 1 == 1).map(|(_, name)| *name);
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "sleeping".to_owned() } else { names.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_names() {
        assert_eq!(
            [0, 0x80, 0x189, 0x8a, 99].map(futex_name),
            ["wait", "wait", "wait_bitset", "wake_bitset", "other"]
        );
        assert_eq!([1, 6, 32, 0].map(lock_name), ["spin", "read write", "mutex", "sleeping"]);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processors that come and go: cpusets that are changed, processors that are taken offline, threads that somebody moves.
//!
//! A worker's thread is pinned to its processor when it starts. If somebody narrows the cpuset of our control group, or takes the
//! processor offline, the kernel puts the thread elsewhere without a notice. Older kernels forget where it belongs. With every change of
//! the cpuset they unpin all threads, also those that lost nothing. So the watchdog reads once a second where each thread may run.
//! A worker whose processor was taken away goes on where the kernel put it, and goes back when the processor is there again. A worker
//! that somebody has moved by intent (`taskset`, `junctor affinity set`) is left there. Both are printed.
//!
//! The two are distinguished by trying: the watchdog asks for the processor for itself. It is pinned to nothing. When its own processors
//! have changed since it looked last, so has the cpuset, and a worker that may now run there, too, was unpinned with it.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// What of the kernel is needed.
pub(crate) trait Kernel {
    /// Where the thread that asks may run: wherever its cpuset lets it, if nobody has moved it.
    fn own(&self) -> Vec<usize>;
    /// Where a thread may run; `None` if it is gone.
    fn allowed(&self, thread: u32) -> Option<Vec<usize>>;
    /// Whether we may run on a processor.
    fn may_use(&self, cpu: usize) -> bool;
    /// Lets a thread run on this processor only; false if it may not.
    fn pin(&self, thread: u32, cpu: usize) -> bool;
}

/// The kernel that runs us.
pub(crate) struct Real;

fn only(cpu: usize) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    (cpu < CpuSet::MAX_CPU).then(|| set.set(cpu))?;
    Some(set)
}

fn listed(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

fn pid(thread: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(thread).ok()?)
}

impl Kernel for Real {
    fn own(&self) -> Vec<usize> {
        sched_getaffinity(None).map(|set| listed(&set)).unwrap_or_default()
    }

    fn allowed(&self, thread: u32) -> Option<Vec<usize>> {
        let set = sched_getaffinity(Some(pid(thread)?)).ok()?;
        Some(listed(&set))
    }

    fn may_use(&self, cpu: usize) -> bool {
        let (Some(wanted), Ok(before)) = (only(cpu), sched_getaffinity(None)) else { return false };
        let may = sched_setaffinity(None, &wanted).is_ok();
        if may {
            let _ = sched_setaffinity(None, &before);
        }
        may
    }

    fn pin(&self, thread: u32, cpu: usize) -> bool {
        let set = only(cpu).zip(pid(thread));
        set.is_some_and(|(set, thread)| sched_setaffinity(Some(thread), &set).is_ok())
    }
}

/// How a worker stands to its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It runs there.
    Home,
    /// The processor was taken away.
    Lost,
    /// Somebody moved it.
    Moved,
}

/// Watches where workers run.
#[derive(Debug)]
pub(crate) struct Watch {
    /// By worker: its processor and how it stands to it.
    workers: Vec<(usize, State)>,
    /// Where the thread that looks might run when it looked last.
    own: Vec<usize>,
}

impl Watch {
    /// For workers that are pinned to these processors in turn; none are if there are none.
    pub(crate) fn new(workers: usize, cores: &[usize]) -> Watch {
        let home = |w: usize| (cores[w % cores.len()], State::Home);
        let workers = if cores.is_empty() { Vec::new() } else { (0..workers).map(home).collect() };
        Watch { workers, own: Vec::new() }
    }

    /// Looks where the workers' threads may run, and says what has changed.
    pub(crate) fn look(
        &mut self,
        kernel: &impl Kernel,
        thread: impl Fn(usize) -> Option<u32>,
    ) -> Vec<String> {
        let mut said = Vec::new();
        let own = kernel.own();
        let before = std::mem::replace(&mut self.own, own.clone());
        let changed = !before.is_empty() && before != own;
        for (w, (cpu, state)) in self.workers.iter_mut().enumerate() {
            let Some((thread, allowed)) = thread(w).and_then(|t| Some((t, kernel.allowed(t)?))) else {
                continue;
            };
            let at_home = allowed == [*cpu];
            let next = match *state {
                _ if at_home => State::Home,
                State::Moved => State::Moved,
                _ if !kernel.may_use(*cpu) => State::Lost,
                // The processor is there again.
                State::Lost if kernel.pin(thread, *cpu) => State::Home,
                State::Lost => State::Lost,
                State::Home if changed && allowed == own && kernel.pin(thread, *cpu) => State::Home,
                State::Home => State::Moved,
            };
            if next != *state {
                said.push(match next {
                    State::Home => format!("worker {w} is back on its CPU {cpu}"),
                    State::Lost => format!(
                        "CPU {cpu} has been taken away from worker {w} (it is offline, or the cpuset has changed): it goes \
                         on on {}, and returns when it can",
                        list(&allowed)
                    ),
                    State::Moved => format!(
                        "somebody has moved worker {w} from its CPU {cpu} to {}, where it stays",
                        list(&allowed)
                    ),
                });
                *state = next;
            }
        }
        said
    }
}

/// Processors as people write them: `CPU 3`, `CPUs 0-2,5`.
fn list(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let text = |(low, high)| if low == high { format!("{low}") } else { format!("{low}-{high}") };
    let ranges: Vec<String> = ranges.into_iter().map(text).collect();
    format!("CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, ranges.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// A kernel with a cpuset that can be changed; threads 100 and 101 were pinned to processors 0 and 1.
    struct Fake {
        cpuset: BTreeSet<usize>,
        threads: RefCell<[Vec<usize>; 2]>,
        /// Whether it unpins all threads when the cpuset changes.
        unpins: bool,
    }

    impl Fake {
        fn new() -> Fake {
            Fake { cpuset: (0..4).collect(), threads: RefCell::new([vec![0], vec![1]]), unpins: false }
        }

        /// As older kernels do: a thread without a processor may use all that are left, and stays so.
        fn set_cpuset(&mut self, cpuset: &[usize]) {
            self.cpuset = cpuset.iter().copied().collect();
            for allowed in self.threads.get_mut() {
                allowed.retain(|cpu| cpuset.contains(cpu));
                if allowed.is_empty() || self.unpins {
                    *allowed = cpuset.to_vec();
                }
            }
        }
    }

    impl Kernel for Fake {
        fn own(&self) -> Vec<usize> {
            self.cpuset.iter().copied().collect()
        }

        fn allowed(&self, thread: u32) -> Option<Vec<usize>> {
            self.threads.borrow().get(thread as usize - 100).cloned()
        }

        fn may_use(&self, cpu: usize) -> bool {
            self.cpuset.contains(&cpu)
        }

        fn pin(&self, thread: u32, cpu: usize) -> bool {
            if self.may_use(cpu) {
                self.threads.borrow_mut()[thread as usize - 100] = vec![cpu];
            }
            self.may_use(cpu)
        }
    }

    fn check(watch: &mut Watch, kernel: &Fake, want: &[&str]) {
        assert_eq!(watch.look(kernel, |w| Some(100 + w as u32)), want);
        assert_eq!(watch.look(kernel, |w| Some(100 + w as u32)), [] as [&str; 0], "it is said once");
    }

    #[test]
    fn a_worker_that_loses_its_processor_returns_to_it() {
        let (mut watch, mut kernel) = (Watch::new(2, &[0, 1]), Fake::new());
        check(&mut watch, &kernel, &[]);
        let lost = "CPU 1 has been taken away from worker 1 (it is offline, or the cpuset has changed): it goes on on CPUs 0,2-3, and returns when it can";
        kernel.set_cpuset(&[0, 2, 3]);
        check(&mut watch, &kernel, &[lost]);
        kernel.set_cpuset(&[0, 3]);
        check(&mut watch, &kernel, &[]);
        kernel.set_cpuset(&[0, 1, 2, 3]);
        check(&mut watch, &kernel, &["worker 1 is back on its CPU 1"]);
        assert_eq!(*kernel.threads.borrow(), [vec![0], vec![1]]);
    }

    #[test]
    fn a_kernel_that_unpins_all_is_made_good() {
        let (mut watch, mut kernel) = (Watch::new(2, &[0, 1]), Fake::new());
        kernel.unpins = true;
        check(&mut watch, &kernel, &[]);
        let lost = "CPU 1 has been taken away from worker 1 (it is offline, or the cpuset has changed): it goes on on CPUs 0,2-3, and returns when it can";
        kernel.set_cpuset(&[0, 2, 3]);
        check(&mut watch, &kernel, &[lost]);
        assert_eq!(*kernel.threads.borrow(), [vec![0], vec![0, 2, 3]]);
        kernel.set_cpuset(&[0, 1]);
        check(&mut watch, &kernel, &["worker 1 is back on its CPU 1"]);
        assert_eq!(*kernel.threads.borrow(), [vec![0], vec![1]]);
        // Without a change of the cpuset, it was somebody's wish.
        kernel.threads.get_mut()[0] = vec![0, 1];
        check(
            &mut watch,
            &kernel,
            &["somebody has moved worker 0 from its CPU 0 to CPUs 0-1, where it stays"],
        );
    }

    #[test]
    fn a_worker_that_was_moved_stays_there() {
        let (mut watch, mut kernel) = (Watch::new(2, &[0, 1]), Fake::new());
        kernel.threads.get_mut()[0] = vec![3];
        check(&mut watch, &kernel, &["somebody has moved worker 0 from its CPU 0 to CPU 3, where it stays"]);
        assert_eq!(*kernel.threads.borrow(), [vec![3], vec![1]]);
        kernel.threads.get_mut()[0] = vec![0];
        check(&mut watch, &kernel, &["worker 0 is back on its CPU 0"]);
    }

    #[test]
    fn workers_that_are_not_pinned_or_gone_are_left_alone() {
        let kernel = Fake::new();
        assert!(Watch::new(2, &[]).look(&kernel, |w| Some(100 + w as u32)).is_empty());
        assert!(Watch::new(3, &[0, 1]).look(&kernel, |_| None).is_empty());
        assert!(Watch::new(1, &[2]).look(&kernel, |_| Some(999)).is_empty());
    }

    #[test]
    fn this_kernel_says_where_a_thread_may_run() {
        let me = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let before = Real.allowed(me).expect("this thread exists");
        assert!(!before.is_empty());
        for cpu in &before {
            assert!(Real.may_use(*cpu));
        }
        assert_eq!(Real.allowed(me), Some(before.clone()), "asking changes nothing");
        assert!(!Real.may_use(CpuSet::MAX_CPU - 1) || before.contains(&(CpuSet::MAX_CPU - 1)));
        assert!(!Real.may_use(CpuSet::MAX_CPU));
        assert!(Real.pin(me, before[0]));
        assert_eq!(Real.allowed(me), Some(vec![before[0]]));
        assert_eq!(Real.allowed(u32::MAX), None);
    }
}

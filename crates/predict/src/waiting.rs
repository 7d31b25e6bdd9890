// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workers that wait for elements which one of them at a time may run: a closed network of customers (workers) who think (run what is
//! theirs) and want to be served (by such elements), each packet anew.
//!
//! Two extremes are known. Were all times exponentially distributed, mean value analysis would be exact (Reiser and Lavenberg 1980). Were they
//! constant, workers would soon go round in a fixed order and wait only where one element has no time left to serve any (the asymptotic bound of
//! operational analysis, Denning and Buzen 1978). The section of a batch is nearly constant, and what lies between two of them is not. For two
//! workers and one element that case is exact here. For more, the rate is taken to lie as far between the extremes as it does then.

/// The share that so many workers reach of the rate that they would have if none waited. `own` is what a packet costs each worker apart
/// from what it holds; `held` is what it costs in each element that serves one at a time.
pub(super) fn share_of_free(workers: usize, own: f64, held: &[f64]) -> f64 {
    let all = own + held.iter().sum::<f64>();
    if workers < 2 || all <= 0.0 {
        return 1.0;
    }
    let free = workers as f64 / all;
    let longest = held.iter().copied().fold(0.0, f64::max);
    let bound = if longest > 0.0 { free.min(1.0 / longest) } else { free };
    let mut queues = vec![0.0; held.len()];
    let mut rate = 0.0;
    for customers in 1..=workers {
        let stays: Vec<f64> = held.iter().zip(&queues).map(|(held, queue)| held * (1.0 + queue)).collect();
        rate = customers as f64 / (own + stays.iter().sum::<f64>());
        queues.iter_mut().zip(stays).for_each(|(queue, stay)| *queue = rate * stay);
    }
    let known = |rate: f64| rate * all / 2.0;
    let two = two_with_constant_sections(all - longest, longest);
    let random = known(2.0 / (all + longest * longest / all));
    let constant = known((2.0 / all).min(1.0 / longest.max(f64::MIN_POSITIVE)));
    let between = if constant > random { (two - random) / (constant - random) } else { 0.0 };
    (rate + between * (bound - rate)) / free
}

/// The share for two workers, sections of constant length and exponential times between. A section begins while the other worker
/// thinks. Either that worker wants a section too before this one ends, or both think when it ends. Then the first of them wants one
/// half a mean later, on average.
fn two_with_constant_sections(own: f64, held: f64) -> f64 {
    let all = own + held;
    if held <= 0.0 || own <= 0.0 {
        all / (2.0 * held.max(all / 2.0))
    } else {
        all / (2.0 * held + (-held / own).exp() * own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exponential times between sections of constant length, simulated.
    #[test]
    fn two_workers_wait_as_simulated() {
        for percent in [1, 10, 30, 50, 70, 90, 99] {
            let held = f64::from(percent);
            let found = share_of_free(2, 100.0 - held, &[held]);
            let simulated = simulated(2, 100.0 - held, &[held], [true, false]);
            assert!((found / simulated - 1.0).abs() < 0.015, "{percent} %: {found}, not {simulated}");
        }
        assert_eq!((share_of_free(1, 10.0, &[20.0]), share_of_free(2, 0.0, &[20.0])), (1.0, 0.5));
        assert_eq!(share_of_free(4, 10.0, &[]), 1.0);
    }

    /// Workers that are in a section by chance, simulated with the same means.
    #[test]
    fn more_workers_and_sections_lie_between_the_simulated_extremes() {
        for workers in [2, 3, 4, 8] {
            for held in [&[5.0][..], &[20.0], &[10.0, 25.0], &[60.0]] {
                let own = 100.0 - held.iter().sum::<f64>();
                let found = share_of_free(workers, own, held);
                let [constant, random] =
                    [false, true].map(|random| simulated(workers, own, held, [random; 2]));
                assert!(
                    found <= constant * 1.01 && found >= random * 0.99,
                    "{workers} {held:?}: {random} {found} {constant}"
                );
            }
        }
    }

    /// `random` says which times are exponential: those between, and the sections.
    fn simulated(workers: usize, own: f64, held: &[f64], random: [bool; 2]) -> f64 {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut time = |mean: f64, random: bool| if random { -(1.0 - rng.f64()).ln() * mean } else { mean };
        // Each worker: when it is there, and before which section.
        let mut at: Vec<(f64, usize)> = (0..workers).map(|w| (w as f64 * 7.0 % own, 0)).collect();
        let mut free_at = vec![0.0f64; held.len()];
        let (mut rounds, mut end) = (0, 0.0);
        while rounds < 40_000 {
            let Some(w) = (0..workers).min_by(|a, b| at[*a].0.total_cmp(&at[*b].0)) else { break };
            let (now, section) = at[w];
            let left = now.max(free_at[section]) + time(held[section], random[1]);
            free_at[section] = left;
            let last = section + 1 == held.len();
            at[w] = if last { (left + time(own, random[0]), 0) } else { (left, section + 1) };
            rounds += usize::from(last);
            end = left;
        }
        f64::from(rounds as u32) / end * 100.0 / workers as f64
    }
}

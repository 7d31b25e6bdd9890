// SPDX-License-Identifier: MIT OR Apache-2.0
//! A processor's time in parts that are equally long, and what it did in each.

use serde::Serialize;

/// So many parts has a recording.
pub(super) const PARTS: usize = 60;

/// What a processor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Router,
    Others,
    Interrupt,
    Softirq,
    Idle,
}

/// Shares of a part of the time, of which what is missing is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Moment {
    /// In threads of the router.
    pub router: f64,
    /// In other threads.
    pub others: f64,
    /// In handlers of interrupts.
    pub interrupts: f64,
    /// In softirqs.
    pub softirqs: f64,
    /// In nothing.
    pub idle: f64,
}

impl Moment {
    fn of(&mut self, what: What) -> &mut f64 {
        match what {
            What::Router => &mut self.router,
            What::Others => &mut self.others,
            What::Interrupt => &mut self.interrupts,
            What::Softirq => &mut self.softirqs,
            What::Idle => &mut self.idle,
        }
    }

    /// What takes the most of it, as a letter.
    pub(super) fn letter(&self) -> char {
        let Moment { router, others, interrupts, softirqs, idle } = *self;
        let all = [('R', router), ('o', others), ('i', interrupts), ('s', softirqs), ('.', idle)];
        let most = all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        most.filter(|(_, share)| *share > 0.0).map_or(' ', |(letter, _)| letter)
    }
}

/// What the letters stand for.
pub(super) const LETTERS: &str =
    "R: the router, o: other programs, i: interrupts, s: softirqs, .: nothing took the most of it";

/// Puts it together.
#[derive(Clone, Debug)]
pub(super) struct OverTime {
    from: u64,
    each: u64,
    parts: Vec<Moment>,
}

impl OverTime {
    pub(super) fn new(from: u64, to: u64) -> OverTime {
        let each = to.saturating_sub(from).div_ceil(PARTS as u64).max(1);
        OverTime { from, each, parts: vec![Moment::default(); PARTS] }
    }

    /// From one time to the other it did this.
    pub(super) fn add(&mut self, from: u64, to: u64, what: What) {
        self.spread(from, to, what, 1.0);
    }

    /// From one time to the other it did this, and what it is said to have done meanwhile it did not.
    pub(super) fn instead(&mut self, from: u64, to: u64, what: What, of: What) {
        self.spread(from, to, what, 1.0);
        self.spread(from, to, of, -1.0);
    }

    fn spread(&mut self, from: u64, to: u64, what: What, sign: f64) {
        let (from, to) = (from.saturating_sub(self.from), to.saturating_sub(self.from));
        let (first, last) = (from / self.each, to / self.each);
        for (i, part) in self.parts.iter_mut().enumerate().take(last as usize + 1).skip(first as usize) {
            let begins = i as u64 * self.each;
            let lies = to.min(begins + self.each).saturating_sub(from.max(begins));
            *part.of(what) += sign * lies as f64 / self.each as f64;
        }
    }

    pub(super) fn parts(mut self) -> Vec<Moment> {
        for part in &mut self.parts {
            let Moment { router, others, interrupts, softirqs, idle } = part;
            for share in [router, others, interrupts, softirqs, idle] {
                *share = share.clamp(0.0, 1.0);
            }
        }
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_spread_over_the_parts_that_it_lies_in() {
        let mut time = OverTime::new(1000, 1000 + 100 * PARTS as u64);
        time.add(1000, 1250, What::Router);
        time.instead(1050, 1150, What::Softirq, What::Router);
        time.add(1250, 1_000_000, What::Idle);
        let parts = time.parts();
        let shares: Vec<_> = parts.iter().take(4).map(|p| (p.router, p.softirqs, p.idle)).collect();
        assert_eq!(shares, [(0.5, 0.5, 0.0), (0.5, 0.5, 0.0), (0.5, 0.0, 0.5), (0.0, 0.0, 1.0)]);
        assert_eq!(
            parts.iter().map(Moment::letter).skip(2).collect::<String>(),
            format!(".{}", ".".repeat(57))
        );
        assert_eq!((parts.len(), Moment::default().letter()), (PARTS, ' '));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Welch's t-test: whether two samples of unequal variance have different means (B. L. Welch, Biometrika 34, 1947).

use statrs::distribution::{ContinuousCDF as _, StudentsT};
use tester::search::Summary;

/// What the test says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Test {
    /// Mean of B less mean of A.
    pub(super) difference: f64,
    /// Bounds of the confidence interval of that.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Probability of a difference at least as great, either way, if the means were the same.
    pub(super) p: f64,
}

/// Tests two samples at this confidence, 0 to 1; nothing if one of them has fewer than two values.
pub(super) fn test(a: &Summary, b: &Summary, confidence: f64) -> Option<Test> {
    if a.count < 2 || b.count < 2 {
        return None;
    }
    let difference = b.mean - a.mean;
    let part = |s: &Summary| s.stdev.powi(2) / s.count as f64;
    let (of_a, of_b) = (part(a), part(b));
    let error = (of_a + of_b).sqrt();
    if error == 0.0 {
        // Runs that never vary: any difference counts.
        let p = if difference == 0.0 { 1.0 } else { 0.0 };
        return Some(Test { difference, low: difference, high: difference, p });
    }
    let freedom = |part: f64, s: &Summary| part.powi(2) / (s.count - 1) as f64;
    let degrees = (of_a + of_b).powi(2) / (freedom(of_a, a) + freedom(of_b, b));
    let t = StudentsT::new(0.0, 1.0, degrees).ok()?;
    let reach = t.inverse_cdf(1.0 - (1.0 - confidence) / 2.0) * error;
    let p = 2.0 * t.cdf(-(difference / error).abs());
    Some(Test { difference, low: difference - reach, high: difference + reach, p })
}

/// p-values of several tests at once, so that among many a small one is no surprise (S. Holm, Scandinavian Journal of Statistics 6, 1979).
pub(super) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut corrected = vec![1.0; p.len()];
    let mut greatest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        greatest = greatest.max((p.len() - rank) as f64 * p[index]).min(1.0);
        corrected[index] = greatest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What scipy 1.16 says: `ttest_ind(b, a, equal_var=False)` and its `confidence_interval(0.95)`.
    #[test]
    fn as_another_implementation_has_it() {
        let wide = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4];
        let high = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4];
        for (a, b, p, low, high) in [
            (&wide[..], &high[..], 0.021_378_001_462_866_992, 0.349_237_066_192_406_9, 3.984_096_267_140_929),
            (
                &[1.0, 2.0],
                &[3.0, 5.0],
                0.198_727_389_349_265_06,
                -4.418_522_830_071_064,
                9.418_522_830_071_064,
            ),
            (
                &[10.0, 10.2, 9.9],
                &[10.5, 10.4, 10.6, 10.45],
                0.019_781_535_367_981_072,
                0.138_691_181_025_885_18,
                0.769_642_152_307_449_8,
            ),
        ] {
            let found = test(&Summary::of(a).unwrap(), &Summary::of(b).unwrap(), 0.95).unwrap();
            for (found, wanted) in [(found.p, p), (found.low, low), (found.high, high)] {
                assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
            }
        }
    }

    /// The same of scipy 1.17.1: many values, variances that differ by millions, and a difference that is beyond doubt.
    #[test]
    fn as_another_implementation_has_extremes() {
        let many = |n: u32, step: u32, modulus: u32, scale: f64, offset: f64| -> Vec<f64> {
            (0..n).map(|i| f64::from(i * step % modulus) * scale + offset).collect()
        };
        let wide = many(40, 71, 103, 3.0, 0.0);
        for (a, b, p, low, high) in [
            (
                many(500, 37, 101, 0.1, 0.0),
                many(400, 53, 97, 0.1, 0.3),
                0.679_282_219_425_685_3,
                -0.297_214_196_041_936_5,
                0.455_914_196_041_937_9,
            ),
            (
                vec![5.0, 5.001, 4.999],
                wide.clone(),
                1.851_571_854_712_879e-12,
                117.563_188_010_306_92,
                176.336_811_989_693_06,
            ),
            (
                wide,
                vec![5.0, 5.001, 4.999],
                1.851_571_854_712_879e-12,
                -176.336_811_989_693_06,
                -117.563_188_010_306_92,
            ),
            (
                many(30, 1, 7, 0.01, 10.0),
                many(20, 1, 5, 0.01, 11.0),
                1.744_553_867_808_816e-71,
                0.981_653_232_676_504,
                1.001_680_100_656_830_3,
            ),
        ] {
            let found = test(&Summary::of(&a).unwrap(), &Summary::of(&b).unwrap(), 0.95).unwrap();
            assert!((found.p - p).abs() <= 1e-6 * p.max(1e-12), "{} {p}", found.p);
            for (found, wanted) in [(found.low, low), (found.high, high)] {
                assert!((found - wanted).abs() < 1e-6 * wanted.abs().max(1.0), "{found} {wanted}");
            }
        }
    }

    #[test]
    fn too_few_values_and_values_that_never_vary() {
        let of = |values: &[f64]| Summary::of(values).unwrap();
        assert_eq!(test(&of(&[1.0]), &of(&[1.0, 2.0]), 0.95), None);
        assert_eq!(test(&of(&[1.0, 1.0]), &of(&[1.0, 1.0]), 0.95).unwrap().p, 1.0);
        let sure = test(&of(&[1.0, 1.0]), &of(&[1.5, 1.5]), 0.95).unwrap();
        assert_eq!((sure.p, sure.low, sure.high), (0.0, 0.5, 0.5));
    }

    /// R: `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")`.
    #[test]
    fn holm_s_correction() {
        let close = holm(&[0.01, 0.04, 0.03, 0.005]).into_iter().zip([0.03, 0.06, 0.06, 0.02]);
        assert!(close.into_iter().all(|(a, b)| (a - b).abs() < 1e-12));
        assert_eq!(holm(&[]), Vec::<f64>::new());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was counted of threads and of the machine, as the page draws it: rates between readings.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::file::Recording;
use crate::kernel::counters::{Rate, rates};

/// Each counter with, by lane, the times of its readings, from the recording's beginning in nanoseconds, and how many a second came between each two.
/// Threads that have no lane are left out.
pub(super) fn counters(
    recording: &Recording,
    begins_ns: u64,
    lane: impl Fn(u32) -> Option<usize>,
) -> Vec<Value> {
    let mut all: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
    for ((thread, counter), rates) in rates(&recording.readings) {
        let (Some(lane), Some(first)) = (lane(thread), rates.first()) else { continue };
        // The first reading is before the first event.
        let from_begin = |at_ns: u64| i128::from(at_ns) - i128::from(begins_ns);
        let ends = rates.iter().map(|rate| rate.to_ns);
        let times: Vec<i128> = std::iter::once(first.from_ns).chain(ends).map(from_begin).collect();
        let rates: Vec<f64> = rates.iter().map(three_digits).collect();
        all.entry(counter).or_default().push(json!({"lane": lane, "times": times, "rates": rates}));
    }
    let named = all.into_iter().filter_map(|(counter, lanes)| {
        let name = recording.header.counters.get(counter as usize)?;
        Some(json!({"name": name.name, "unit": name.unit(), "user_only": name.user_only, "lanes": lanes}))
    });
    named.collect()
}

/// As much of a rate as anyone reads, so that the page stays small.
fn three_digits(rate: &Rate) -> f64 {
    let scale = 10_f64.powi(3 - rate.per_s.max(1e-3).log10().ceil() as i32);
    (rate.per_s * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::counters::Reading;
    use crate::names::CounterName;

    #[test]
    fn readings_become_rates_of_lanes() {
        let reading = |at_ns, thread, counter, value| Reading { at_ns, thread, counter, value };
        let mut recording = Recording::default();
        recording.header.counters = ["cycles", "task-clock"]
            .map(|name| CounterName { name: name.into(), ..CounterName::default() })
            .into();
        recording.readings = vec![
            reading(1_000_000_000, 70, 0, 500),
            reading(1_100_000_000, 70, 0, 123_956),
            reading(1_100_000_000, 71, 0, 1),
            reading(1_300_000_000, 70, 0, 123_956),
            reading(1_100_000_000, 70, 1, 0),
            reading(1_300_000_000, 70, 1, 1),
            // Nobody knows what these are, or whose.
            reading(1_300_000_000, 70, 2, 1),
            reading(1_400_000_000, 70, 2, 1),
        ];
        let got = counters(&recording, 1_050_000_000, |thread| (thread == 70).then_some(3));
        let cycles =
            json!({"lane": 3, "times": [-50_000_000, 50_000_000, 250_000_000], "rates": [1_230_000.0, 0.0]});
        let clock = json!({"lane": 3, "times": [50_000_000, 250_000_000], "rates": [5.0]});
        let wanted = [
            json!({"name": "cycles", "unit": "cycles", "user_only": false, "lanes": [cycles]}),
            json!({"name": "task-clock", "unit": "ns", "user_only": false, "lanes": [clock]}),
        ];
        assert_eq!(got, wanted);
    }
}

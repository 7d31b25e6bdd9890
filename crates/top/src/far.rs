// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics of a router behind a management API: what it publishes, as JSON.

use std::sync::Arc;

use client::Failure;
use serde_json::{Value, json};
use stats::{Directory, Metric, MetricKind, Object, Reading, Series, Snapshot};

use super::look::Router;
use super::watch::Gone;

/// A router that is somewhere else.
pub trait Far: std::fmt::Debug + Send + Sync {
    /// What it publishes at the moment, as [`published`] writes it.
    ///
    /// # Errors
    /// It is not reached, or has ended.
    fn statistics(&self) -> Result<Value, Failure>;
}

/// What a router publishes, for [`Far::statistics`].
#[must_use]
pub fn published(pid: u32, started_ns: u64, reading: &Reading) -> Value {
    let (directory, snapshot) = (&reading.directory, &reading.snapshot);
    let kind = |kind| if kind == MetricKind::Counter { "counter" } else { "gauge" };
    let metric = |m: &Metric| json!([m.name, kind(m.kind), m.unit, m.text, m.part]);
    let object = |o: &Object| json!([o.kind, o.name, o.detail]);
    let series = |s: &Series| json!([s.metric, s.object, s.worker, s.part]);
    json!({
        "pid": pid, "started_ns": started_ns, "number": reading.number, "wall_ns": snapshot.wall_ns,
        "monotonic_ns": snapshot.monotonic_ns, "cycles": snapshot.cycles, "notes": snapshot.notes,
        "metrics": directory.metrics.iter().map(metric).collect::<Vec<_>>(),
        "objects": directory.objects.iter().map(object).collect::<Vec<_>>(),
        "series": directory.series.iter().map(series).collect::<Vec<_>>(),
        "values": snapshot.values,
    })
}

/// What [`published`] has written; nothing if it is something else.
fn read(value: &Value) -> Option<(Router, Reading)> {
    let number = |name: &str| value[name].as_u64();
    let list = |name: &str| value[name].as_array();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let small = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
    let metric = |m: &Value| {
        let kind = match m[1].as_str()? {
            "counter" => MetricKind::Counter,
            _ => MetricKind::Gauge,
        };
        Some(Metric { name: text(&m[0])?, kind, unit: text(&m[2])?, text: text(&m[3])?, part: text(&m[4])? })
    };
    let object = |o: &Value| Some(Object { kind: text(&o[0])?, name: text(&o[1])?, detail: text(&o[2])? });
    let series = |s: &Value| {
        Some(Series {
            metric: small(&s[0])?,
            object: small(&s[1])?,
            worker: small(&s[2]),
            part: text(&s[3])?,
        })
    };
    let directory = Directory {
        metrics: list("metrics")?.iter().map(metric).collect::<Option<_>>()?,
        objects: list("objects")?.iter().map(object).collect::<Option<_>>()?,
        series: list("series")?.iter().map(series).collect::<Option<_>>()?,
    };
    let snapshot = Snapshot {
        wall_ns: number("wall_ns")?,
        monotonic_ns: number("monotonic_ns")?,
        cycles: number("cycles")?,
        values: list("values")?.iter().map(Value::as_u64).collect::<Option<_>>()?,
        notes: list("notes")?.iter().map(text).collect::<Option<_>>()?,
        ..Snapshot::default()
    };
    let router = Router { pid: small(&value["pid"])?, started_ns: number("started_ns")? };
    Some((router, Reading { directory: Arc::new(directory), snapshot, number: number("number")? }))
}

/// The newest snapshot, and whose it is.
pub(super) fn ask(far: &dyn Far) -> Result<(Router, Reading), Gone> {
    let value = far.statistics().map_err(|why| match why {
        // The API has no such router any more, or says that it has ended.
        Failure::Refused(404 | 503, _) => Gone::Ended,
        other => Gone::Far(other),
    })?;
    let odd = || {
        Failure::Unreachable("the service's answer is not understood; see whether it has this version".into())
    };
    read(&value).ok_or_else(|| Gone::Far(odd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_read() {
        let metric = |name: &str, kind| Metric {
            name: name.into(),
            kind,
            unit: "packets".into(),
            text: "What it says.".into(),
            part: String::new(),
        };
        let directory = Directory {
            metrics: vec![metric("a", MetricKind::Counter), metric("b", MetricKind::Gauge)],
            objects: vec![Object { kind: "element".into(), name: "c\"1".into(), detail: "Counter".into() }],
            series: vec![
                Series { metric: 0, object: 0, worker: Some(3), part: "x".into() },
                Series { metric: 1, object: 0, worker: None, part: String::new() },
            ],
        };
        let snapshot = Snapshot {
            wall_ns: 1,
            monotonic_ns: u64::MAX,
            cycles: 3,
            values: vec![u64::MAX, 5],
            notes: vec!["moved".into()],
            ..Snapshot::default()
        };
        let reading = Reading { directory: Arc::new(directory), snapshot, number: 7 };
        let text = published(9, 8, &reading).to_string();
        let value: Value = serde_json::from_str(&text).unwrap();
        let (router, found) = read(&value).unwrap();
        assert_eq!((router.pid, router.started_ns, found.number), (9, 8, 7));
        assert_eq!((&found.directory, &found.snapshot), (&reading.directory, &reading.snapshot));
        for name in ["pid", "values", "series", "notes"] {
            let mut bad = value.clone();
            bad[name] = json!({});
            assert!(read(&bad).is_none(), "{name}");
        }
    }
}

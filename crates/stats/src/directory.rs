// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is counted: metrics (what a number means), objects (whose it is), and series, one for each number in a snapshot.

use std::collections::HashMap;

use crate::bytes::{Bad, Put, Take};

/// How a number behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, until what it counts is replaced: differences and rates are what one looks at.
    Counter,
    /// It is what it is at the moment.
    Gauge,
}

/// What a number means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, `element.packets` for instance. Names keep their meaning from version to version.
    pub name: String,
    /// How it behaves.
    pub kind: MetricKind,
    /// In what it is measured.
    pub unit: String,
    /// What it reports, in a sentence.
    pub text: String,
    /// What distinguishes its series of one object, in addition to the worker: `output`, `reason`; empty if nothing does.
    pub part: String,
}

/// Whose numbers are: an element, a worker, the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// `router`, `worker`, `element`, `memory`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What it is more closely: an element's class.
    pub detail: String,
}

/// One number of each snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Series {
    /// Which of the metrics.
    pub metric: u32,
    /// Whose: which of the objects.
    pub object: u32,
    /// On which worker, if it is counted by worker.
    pub worker: Option<u32>,
    /// Which part, see [`Metric::part`]; empty if there are none.
    pub part: String,
}

/// What a number is, whose, and which.
pub type Entry<'a> = (&'a Metric, &'a Object, &'a Series);

/// What the numbers of a snapshot are. The number at place `i` is that of `series[i]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// Metrics.
    pub metrics: Vec<Metric>,
    /// Objects.
    pub objects: Vec<Object>,
    /// Series.
    pub series: Vec<Series>,
}

/// The worker of what is not counted by worker.
const NO_WORKER: usize = u32::MAX as usize;

impl Directory {
    /// The metric, object and series at a place, if all are there.
    pub fn at(&self, place: usize) -> Option<Entry<'_>> {
        let series = self.series.get(place)?;
        Some((self.metrics.get(series.metric as usize)?, self.objects.get(series.object as usize)?, series))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut texts = Texts::default();
        let mut rest = Put::default();
        rest.u32(self.metrics.len());
        for metric in &self.metrics {
            rest.u32(texts.number(&metric.name));
            rest.u32(match metric.kind {
                MetricKind::Counter => 0,
                MetricKind::Gauge => 1,
            });
            [&metric.unit, &metric.text, &metric.part]
                .into_iter()
                .for_each(|text| rest.u32(texts.number(text)));
        }
        rest.u32(self.objects.len());
        for object in &self.objects {
            [&object.kind, &object.name, &object.detail]
                .into_iter()
                .for_each(|text| rest.u32(texts.number(text)));
        }
        rest.u32(self.series.len());
        for series in &self.series {
            rest.u32(series.metric as usize);
            rest.u32(series.object as usize);
            rest.u32(series.worker.map_or(NO_WORKER, |w| w as usize));
            rest.u32(texts.number(&series.part));
        }
        let mut all = Put::default();
        all.u32(texts.all.len());
        texts.all.iter().for_each(|text| all.text(text));
        all.0.extend_from_slice(&rest.0);
        all.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Directory, Bad> {
        let mut take = Take(bytes);
        let count = take.count(4, "the number of texts")?;
        let texts = (0..count).map(|_| take.text("a text")).collect::<Result<Vec<_>, _>>()?;
        let text = |take: &mut Take<'_>| -> Result<String, Bad> {
            let number = take.u32("the number of a text")? as usize;
            Ok((*texts.get(number).ok_or("the number of a text")?).to_owned())
        };
        let mut directory = Directory::default();
        for _ in 0..take.count(20, "the number of metrics")? {
            let name = text(&mut take)?;
            let kind = match take.u32("the kind of a metric")? {
                0 => MetricKind::Counter,
                1 => MetricKind::Gauge,
                _ => return Err("the kind of a metric"),
            };
            let [unit, meaning, part] = [text(&mut take)?, text(&mut take)?, text(&mut take)?];
            directory.metrics.push(Metric { name, kind, unit, text: meaning, part });
        }
        for _ in 0..take.count(12, "the number of objects")? {
            let [kind, name, detail] = [text(&mut take)?, text(&mut take)?, text(&mut take)?];
            directory.objects.push(Object { kind, name, detail });
        }
        for _ in 0..take.count(16, "the number of series")? {
            let (metric, object) = (take.u32("a series' metric")?, take.u32("a series' object")?);
            if metric as usize >= directory.metrics.len() || object as usize >= directory.objects.len() {
                return Err("a series' metric or object");
            }
            let worker = take.u32("a series' worker")?;
            let worker = (worker as usize != NO_WORKER).then_some(worker);
            directory.series.push(Series { metric, object, worker, part: text(&mut take)? });
        }
        Ok(directory)
    }
}

/// Each text once.
#[derive(Default)]
struct Texts<'a> {
    all: Vec<&'a str>,
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Texts<'a> {
    fn number(&mut self, text: &'a str) -> usize {
        *self.numbers.entry(text).or_insert_with(|| {
            self.all.push(text);
            self.all.len() - 1
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example() -> Directory {
        let metric = |name: &str, kind, part: &str| Metric {
            name: name.into(),
            kind,
            unit: "packets".into(),
            text: format!("What {name} says."),
            part: part.into(),
        };
        let object = |kind: &str, name: &str, detail: &str| Object {
            kind: kind.into(),
            name: name.into(),
            detail: detail.into(),
        };
        Directory {
            metrics: vec![
                metric("element.packets", MetricKind::Counter, "output"),
                metric("queue.length", MetricKind::Gauge, ""),
            ],
            objects: vec![object("element", "q", "Queue"), object("worker", "0", "")],
            series: vec![
                Series { metric: 0, object: 0, worker: Some(0), part: "0".into() },
                Series { metric: 1, object: 0, worker: None, part: String::new() },
            ],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = example();
        assert_eq!(Directory::decode(&directory.encode()), Ok(directory));
        assert_eq!(Directory::decode(&Directory::default().encode()), Ok(Directory::default()));
    }

    #[test]
    fn cut_short_it_is_refused() {
        let bytes = example().encode();
        (0..bytes.len()).for_each(|n| assert!(Directory::decode(&bytes[..n]).is_err(), "{n}"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
        ) {
            let _ = Directory::decode(&bytes);
        }
    }
}

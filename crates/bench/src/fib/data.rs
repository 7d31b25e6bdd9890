// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes, updates and addresses to measure with: given, or the real tables shared next to the repository, or generated.

use std::path::PathBuf;

use fastrand::Rng;
use tables::fib4::NextHopId;

use harness::files;
use tables::routes::Options;

use super::table::Table;
use crate::Error;

/// Addresses of each workload.
const ADDRS: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };
const FLOWS: usize = if cfg!(test) { 256 } else { 65_536 };

/// Files that the user gave.
pub(crate) struct Sources {
    pub(crate) routes: Option<PathBuf>,
    pub(crate) updates: Option<PathBuf>,
}

/// What to measure with.
pub(crate) struct Data<T: Table> {
    pub(crate) routes: Vec<(T::Prefix, NextHopId)>,
    pub(crate) updates: Vec<(T::Prefix, Option<NextHopId>)>,
    /// Where they come from, for people.
    pub(crate) source: String,
    pub(crate) updates_source: String,
}

impl<T: Table> Data<T> {
    /// Reads the files given, those shared, or generates.
    pub(crate) fn load(sources: &Sources) -> Result<Self, Error> {
        let shared = |kind: &str| files::shared(&format!("v{}-{kind}-as3333-20260511.txt.xz", T::DIGIT));
        let routes = sources.routes.clone().or_else(|| shared("ris"));
        let Some(routes) = routes else {
            let mut data = Self::generated(if T::DIGIT == '4' { 1_000_000 } else { 250_000 }, 500_000);
            if let Some(file) = &sources.updates {
                data.updates = Self::read(std::slice::from_ref(file))?.1;
                data.updates_source = file.display().to_string();
            }
            return Ok(data);
        };
        let updates = match (&sources.updates, &sources.routes) {
            (Some(file), _) => Some(file.clone()),
            (None, None) => shared("updates"),
            (None, Some(_)) => None,
        };
        let files: Vec<PathBuf> = std::iter::once(routes.clone()).chain(updates.clone()).collect();
        let (list, mut changes) = Self::read(&files)?;
        if list.is_empty() {
            return Err(Error::nothing(format!(
                "{}: no IPv{} routes; --v4 or --v6 leaves a family out",
                routes.display(),
                T::DIGIT
            )));
        }
        let mut updates_source = updates.unwrap_or(routes.clone()).display().to_string();
        if changes.is_empty() {
            changes = Self::flaps(&list, 500_000.min(4 * list.len()));
            updates_source = "generated: routes leave, and come back with another next hop".into();
        }
        Ok(Self { routes: list, updates: changes, source: routes.display().to_string(), updates_source })
    }

    #[allow(clippy::type_complexity)]
    fn read(
        files: &[PathBuf],
    ) -> Result<(Vec<(T::Prefix, NextHopId)>, Vec<(T::Prefix, Option<NextHopId>)>), Error> {
        let read = files::read(files, &Options::default())?;
        let changes = read.updates.iter().filter_map(|update| Some((T::pick(update.prefix)?, update.hop)));
        Ok((T::routes(&read), changes.collect()))
    }

    /// A table that only looks like the Internet's.
    pub(super) fn generated(routes: usize, updates: usize) -> Self {
        let mut rng = Rng::with_seed(7);
        let mut list: Vec<T::Prefix> = (0..routes + routes / 4).map(|_| T::synthetic(&mut rng)).collect();
        list.sort_unstable();
        list.dedup();
        let id = |rng: &mut Rng| NextHopId((256.0 * rng.f64().powi(3)) as u32);
        let routes: Vec<_> = list.into_iter().map(|prefix| (prefix, id(&mut rng))).collect();
        let updates = Self::flaps(&routes, updates);
        let source = "generated (no shared/data found, no --routes)".to_owned();
        Self { routes, updates, updates_source: source.clone(), source }
    }

    /// Routes that change, and now and then leave and return.
    fn flaps(routes: &[(T::Prefix, NextHopId)], count: usize) -> Vec<(T::Prefix, Option<NextHopId>)> {
        let mut rng = Rng::with_seed(8);
        let flap = |_| {
            let (prefix, id) = routes[rng.usize(..routes.len())];
            (prefix, (rng.u32(..30) > 0).then_some(NextHopId((id.0 + rng.u32(..3)) % 256)))
        };
        (0..count).map(flap).collect()
    }
}

/// Addresses to look up.
pub(super) struct Workload<T: Table> {
    pub(super) name: &'static str,
    pub(super) addrs: Vec<T::Addr>,
}

/// `rand`, `pfx` and `zipf`.
pub(super) fn workloads<T: Table>(routes: &[(T::Prefix, NextHopId)]) -> Vec<Workload<T>> {
    let mut rng = Rng::with_seed(42);
    let host = |rng: &mut Rng| {
        let (prefix, _) = routes[rng.usize(..routes.len())];
        T::host(rng, prefix)
    };
    let rand = (0..ADDRS).map(|_| T::anywhere(&mut rng)).collect();
    let pfx = (0..ADDRS).map(|_| host(&mut rng)).collect();
    let zipf = zipf(&mut rng, host);
    [("rand", rand), ("pfx", pfx), ("zipf", zipf)]
        .into_iter()
        .map(|(name, addrs)| Workload { name, addrs })
        .collect()
}

/// Flows by Zipf's law, in trains of up to eight packets.
fn zipf<A: Copy>(rng: &mut Rng, mut host: impl FnMut(&mut Rng) -> A) -> Vec<A> {
    let flows: Vec<A> = (0..FLOWS).map(|_| host(rng)).collect();
    let mut total = 0.0;
    let sums: Vec<f64> = (1..=FLOWS)
        .map(|rank| {
            total += 1.0 / rank as f64;
            total
        })
        .collect();
    let mut addrs = Vec::with_capacity(ADDRS + 8);
    while addrs.len() < ADDRS {
        let drawn = rng.f64() * total;
        let flow = flows[sums.partition_point(|sum| *sum < drawn).min(FLOWS - 1)];
        addrs.extend(std::iter::repeat_n(flow, rng.usize(1..=8)));
    }
    addrs.truncate(ADDRS);
    addrs
}

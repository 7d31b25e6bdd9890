// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the forwarding table is behind zebra's stream: single routes are picked from the stream, and looked up until they are there.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::site::connect;
use super::tap::{Sample, Tap};
use crate::Error;

/// How long a route is looked up in vain.
const PATIENCE: Duration = Duration::from_secs(60);
/// Lookups between two looks whether the stream has changed the route again.
const LOOKUPS: usize = 64;
/// The pause between two lookups: they take the worker's time.
const PAUSE: Duration = Duration::from_micros(100);

/// A thread that picks and looks up, until this is dropped.
pub(super) struct Lags {
    found: Arc<Mutex<Vec<f64>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Lags {
    /// Begins. `router` is the router's control socket.
    pub(super) fn start(tap: &Tap, router: PathBuf) -> Lags {
        let (found, is_over) = (Arc::<Mutex<Vec<f64>>>::default(), Arc::<AtomicBool>::default());
        let (tap, list, over) = (tap.clone(), found.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            let mut client = connect(&router)?;
            while !over.load(Ordering::Relaxed) {
                let Some(sample) = tap.sample(Duration::from_millis(20)) else { continue };
                let lookup = format!("rt.lookup {}", sample.prefix.addr());
                let wanted = format!("{} ", sample.gateway);
                let mut look = || Ok(client.read(&lookup)?);
                if let Some(lag) = follow(&tap, &sample, &wanted, &mut look)? {
                    list.lock().unwrap_or_else(PoisonError::into_inner).push(lag.as_secs_f64() * 1e3);
                }
            }
            Ok(())
        });
        Lags { found, is_over, thread: Some(thread) }
    }

    /// Ends, with all that was found, in milliseconds and in order of size.
    pub(super) fn end(mut self) -> Result<Vec<f64>, Error> {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| Error::Panicked("the thread that looks routes up has"))??;
        }
        let mut found = std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner));
        found.sort_by(f64::total_cmp);
        Ok(found)
    }
}

impl Drop for Lags {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The time until a route is there; `None` if it changes again before.
fn follow(
    tap: &Tap,
    sample: &Sample,
    wanted: &str,
    look: &mut impl FnMut() -> Result<String, Error>,
) -> Result<Option<Duration>, Error> {
    let mut answer = String::new();
    while sample.at.elapsed() < PATIENCE {
        for _ in 0..LOOKUPS {
            answer = look()?;
            let now = Instant::now();
            if answer.starts_with(wanted) {
                return Ok(Some(now - sample.at));
            }
            std::thread::sleep(PAUSE);
        }
        if !tap.is_current(sample) {
            return Ok(None);
        }
    }
    Err(Error::nothing(format!(
        "{} leads to '{answer}', and not to {}, for {PATIENCE:?}",
        sample.prefix, sample.gateway
    )))
}

/// The value below which this share of a sorted list lies.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles() {
        let list: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| quantile(&list, share)), [1.0, 50.0, 99.0, 100.0]);
        assert!(quantile(&[], 0.5).is_nan());
    }
}

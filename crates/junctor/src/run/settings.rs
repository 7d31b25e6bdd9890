// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `junctor run` as values.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use conf::{cores, place};
use engine::clock::TimeSource;

use super::Args;

/// What the options say of the run itself.
pub(super) struct Settings {
    pub(super) workers: usize,
    /// How many workers may be added.
    pub(super) reserve: usize,
    /// Cores of all workers.
    pub(super) cores: Vec<usize>,
    /// The user has listed the cores.
    listed: bool,
    pub(super) burst: usize,
    pub(super) time: TimeSource,
    pub(super) seed: u64,
    /// After how long the run ends.
    pub(super) limit: Option<Duration>,
    /// How long a worker may stand still.
    pub(super) patience: Option<Duration>,
    /// How often counters are published, if they are.
    pub(super) stats: Option<Duration>,
    pub(super) memory: packet::Config,
}

impl TryFrom<&Args> for Settings {
    type Error = String;

    fn try_from(args: &Args) -> Result<Settings, String> {
        let time = match args.clock.simtime {
            None => TimeSource::Real,
            Some(epoch) if epoch.is_finite() && epoch >= 0.0 => TimeSource::Simulated((epoch * 1e9) as u64),
            Some(epoch) => return Err(format!("--simtime expects seconds after the epoch, not {epoch}")),
        };
        let threads = args.workers.threads.as_deref();
        let (workers, cores) = match (threads, time) {
            (None, TimeSource::Simulated(_)) => (1, Vec::new()),
            (None, TimeSource::Real) => {
                let cores = cores::allowed();
                (cores.len().max(1), cores)
            }
            (Some(text), _) => cores::parse(text)?,
        };
        let (reserve, cores) = reserve(args.workers.max_threads, workers, cores)?;
        let burst = args.workers.burst.unwrap_or(engine::DEFAULT_BURST);
        if !(1..=256).contains(&burst) {
            return Err(format!("--burst must lie between 1 and 256, not {burst}"));
        }
        let seed = args.clock.seed.unwrap_or_else(|| match time {
            TimeSource::Real => RandomState::new().hash_one(0),
            TimeSource::Simulated(_) => 1,
        });
        Ok(Settings {
            workers,
            reserve,
            cores,
            listed: threads.is_some_and(|text| text.parse::<usize>().is_err()),
            burst,
            time,
            seed,
            limit: time_limit(args.clock.time.as_deref())?,
            patience: patience(&args.workers.watchdog)?,
            // On simulated time, what a worker is asked would take its turn.
            stats: stats_period(&args.control.stats)?.filter(|_| args.clock.simtime.is_none()),
            memory: packet::Config {
                frames: args.memory.frames,
                frame_size: args.memory.frame_size,
                shared: args.planes.share_frames,
                ..Default::default()
            },
        })
    }
}

impl Settings {
    /// The workers by whose numbers or cores tasks are placed.
    pub(super) fn places(&self) -> place::Workers<'_> {
        let cores = if self.listed { &self.cores[..self.workers] } else { &[] };
        place::Workers { count: self.workers, cores }
    }
}

/// How many workers may be added to those that begin, and the cores of all: theirs, and the others for those that come.
fn reserve(
    most: Option<usize>,
    workers: usize,
    mut cores: Vec<usize>,
) -> Result<(usize, Vec<usize>), String> {
    let Some(most) = most else { return Ok((0, cores)) };
    if most < workers || most > cores::MOST_WORKERS {
        return Err(format!(
            "--max-threads expects a number from that of --threads, {workers}, to {}, not {most}",
            cores::MOST_WORKERS
        ));
    }
    if most > workers {
        let allowed = cores::allowed();
        if most > allowed.len() {
            cores::say_shared(&format!("up to {most}"), allowed.len());
        }
        // Workers beyond the cores that were listed begin anew with the first.
        cores.truncate(workers);
        let others: Vec<usize> = allowed.into_iter().filter(|core| !cores.contains(core)).collect();
        cores.extend(others);
    }
    Ok((most - workers, cores))
}

const MIN_STATS_PERIOD: Duration = Duration::from_millis(10);
const MAX_STATS_PERIOD: Duration = Duration::from_secs(3600);

fn time_limit(text: Option<&str>) -> Result<Option<Duration>, String> {
    let Some(text) = text else { return Ok(None) };
    let time = engine::parse_duration(text);
    time.map(Some)
        .ok_or_else(|| format!("--time expects seconds, or a time with unit such as 500ms, not '{text}'"))
}

/// How often counters are published, if they are.
fn stats_period(text: &str) -> Result<Option<Duration>, String> {
    match (text, engine::parse_duration(text)) {
        ("none", _) => Ok(None),
        (_, Some(period)) if (MIN_STATS_PERIOD..=MAX_STATS_PERIOD).contains(&period) => Ok(Some(period)),
        (text, _) => {
            Err(format!("--stats expects a time from 10 ms to 1 h, such as 250ms, or none, not '{text}'"))
        }
    }
}

/// How long a worker may stand still.
fn patience(text: &str) -> Result<Option<Duration>, String> {
    match engine::parse_duration(text) {
        Some(time) if time.is_zero() => Ok(None),
        Some(time) if time >= Duration::from_millis(250) => Ok(Some(time)),
        _ => Err(format!(
            "--watchdog expects a time of 250 ms or more, such as 5s, or 0 for never, not '{text}'"
        )),
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several workers with one translator or firewall: how much faster are they than one?
//!
//! *Apart*, each worker has sessions of its own, and both directions of them, as with a network card that spreads packets by a symmetric hash. *Across*, all
//! sessions go by all workers, and each worker has one direction, as with a port for each. In *set-up*, each worker begins sessions of its own.
//!
//! A worker copies packets before it translates them, since they change. One worker alone does the same.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use report::measure::Measured;

use super::Settings;
use super::shape::{Bytes, LENGTH, Shape, Step};
use super::subject::Together;
use super::table::{PIECE, STEP_NS, Trial};
use crate::Error;

/// Pieces of packets of each worker.
const PIECES: usize = 32;

/// What the workers share.
#[derive(Clone, Copy)]
enum Way {
    /// Nothing but the table.
    Apart,
    /// The sessions.
    Across,
}

/// A piece of packets, and whether they leave.
type Piece = (Vec<Bytes>, bool);

/// Measures a shape.
///
/// # Errors
/// A packet is not translated as it should be.
pub(super) fn measure<S: Together>(args: &Settings, shape: &Shape) -> Result<Vec<Measured>, Error> {
    let (workers, sessions) = (args.cores.len(), shape.sessions());
    let mut trial = Trial::<S>::new(args, shape, 0)?;
    trial.set_up(PIECE)?;
    trial.ramp_up()?;
    let (mut one, mut both) = (Vec::new(), [Vec::new(), Vec::new()]);
    for _ in 0..args.runs.max(1) {
        let alone: Result<Vec<f64>, Error> = args
            .cores
            .iter()
            .map(|core| {
                let work = vec![pieces(&mut trial, Way::Apart, 0, 1)];
                rate(&trial, args, &[*core], &work)
            })
            .collect();
        let alone = alone?.iter().sum::<f64>() / workers as f64;
        one.push(alone / 1e6);
        for (way, found) in [Way::Apart, Way::Across].into_iter().zip(&mut both) {
            let work: Vec<_> = (0..workers).map(|worker| pieces(&mut trial, way, worker, workers)).collect();
            found.push(rate(&trial, args, &args.cores, &work)? / alone);
        }
    }
    let [apart, across] = both;
    let (begun, name) = (set_ups::<S>(args, shape)?, S::NAME);
    Ok(vec![
        Measured::new(format!("{name}.mpps_1.{sessions}"), "Mpps", one),
        Measured::new(format!("{name}.scaling_{workers}.apart.{sessions}"), "times", apart),
        Measured::new(format!("{name}.scaling_{workers}.across.{sessions}"), "times", across),
        Measured::new(format!("{name}.setup_scaling_{workers}.{sessions}"), "times", begun),
    ])
}

/// Packets of a worker: of sessions at random, each piece in one direction.
fn pieces<S: Together>(trial: &mut Trial<'_, S>, way: Way, worker: usize, workers: usize) -> Vec<Piece> {
    let piece = |number: usize| {
        let leaves = match way {
            Way::Apart => number.is_multiple_of(2),
            Way::Across => worker.is_multiple_of(2),
        };
        let sessions = trial.shape.sessions();
        trial.sessions.clear();
        for _ in 0..PIECE {
            let any = trial.rng.usize(..sessions);
            trial.sessions.push(match way {
                Way::Apart => (any - any % workers + worker).min(sessions - 1),
                Way::Across => any,
            });
        }
        trial.write(Step::Later, |_| leaves);
        (trial.packets.clone(), leaves)
    };
    (0..PIECES).map(piece).collect()
}

/// Packets a second of workers on these cores, each with its own.
fn rate<S: Together>(
    trial: &Trial<'_, S>,
    args: &Settings,
    cores: &[usize],
    work: &[Vec<Piece>],
) -> Result<f64, Error> {
    let (done, gate) = (AtomicBool::new(false), Barrier::new(cores.len() + 1));
    let now_ns = trial.now_ns;
    let counts: Result<Vec<f64>, Error> = thread::scope(|scope| {
        let worker = |(core, work): (&usize, &Vec<Piece>)| {
            let (core, own, work) = (*core, trial.subject.worker(), work.clone());
            let (done, gate, burst) = (&done, &gate, args.burst);
            scope.spawn(move || {
                core_affinity::set_for_current(CoreId { id: core });
                gate.wait();
                run::<S>(own, &work, burst, now_ns, done)
            })
        };
        let workers: Vec<_> = cores.iter().zip(work).map(worker).collect();
        gate.wait();
        thread::sleep(Duration::from_millis(args.run_ms));
        done.store(true, Ordering::Relaxed);
        workers.into_iter().map(|one| one.join().map_err(|_| Error::Panicked("a worker"))?).collect()
    });
    Ok(counts?.iter().sum())
}

/// Translates until done; returns packets a second.
fn run<S: Together>(
    mut own: S::Worker,
    work: &[Piece],
    burst: usize,
    mut now_ns: u64,
    done: &AtomicBool,
) -> Result<f64, Error> {
    let (mut count, mut room) = (0usize, vec![[0; LENGTH]; PIECE]);
    let since = Instant::now();
    for (packets, leaves) in work.iter().cycle() {
        room.copy_from_slice(packets);
        let mut translated = 0;
        for batch in room.chunks_mut(burst) {
            translated += S::pass_by(&mut own, now_ns, batch, *leaves);
            now_ns += STEP_NS;
        }
        if translated < packets.len() {
            return Err(Error::nothing(format!(
                "{} packets were not translated",
                packets.len() - translated
            )));
        }
        count += translated;
        if done.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(count as f64 / since.elapsed().as_secs_f64())
}

/// How much faster all workers begin all sessions than one does.
fn set_ups<S: Together>(args: &Settings, shape: &Shape) -> Result<Vec<f64>, Error> {
    let mut ratios = Vec::new();
    for seed in 0..args.runs.max(1) as u64 {
        let one = set_up::<S>(args, shape, seed, &args.cores[..1])?;
        ratios.push(one / set_up::<S>(args, shape, seed, &args.cores)?);
    }
    Ok(ratios)
}

/// Seconds in which workers on these cores begin all sessions.
fn set_up<S: Together>(args: &Settings, shape: &Shape, seed: u64, cores: &[usize]) -> Result<f64, Error> {
    let mut trial = Trial::<S>::new(args, shape, seed)?;
    let (workers, sessions) = (cores.len(), shape.sessions());
    let mut work: Vec<Vec<Bytes>> = Vec::new();
    for worker in 0..workers {
        let mut mine = Vec::new();
        let own: Vec<usize> = (worker..sessions).step_by(workers).collect();
        for piece in own.chunks(PIECE) {
            trial.sessions.clear();
            trial.sessions.extend(piece);
            trial.write(Step::Begin, |_| true);
            mine.extend_from_slice(&trial.packets[..piece.len()]);
        }
        work.push(mine);
    }
    let (gate, now_ns) = (Barrier::new(workers), trial.now_ns);
    let seconds: Result<Vec<f64>, Error> = thread::scope(|scope| {
        let worker = |(core, mut packets): (&usize, Vec<Bytes>)| {
            let (core, mut own, gate, burst) = (*core, trial.subject.worker(), &gate, args.burst);
            scope.spawn(move || {
                core_affinity::set_for_current(CoreId { id: core });
                gate.wait();
                let since = Instant::now();
                let begun = packets
                    .chunks_mut(burst)
                    .map(|batch| S::pass_by(&mut own, now_ns, batch, true))
                    .sum::<usize>();
                let seconds = since.elapsed().as_secs_f64();
                match packets.len() - begun {
                    0 => Ok(seconds),
                    lost => Err(Error::nothing(format!("{lost} sessions did not begin"))),
                }
            })
        };
        let workers: Vec<_> = cores.iter().zip(work).map(worker).collect();
        workers.into_iter().map(|one| one.join().map_err(|_| Error::Panicked("a worker"))?).collect()
    });
    Ok(seconds?.into_iter().fold(0.0, f64::max))
}

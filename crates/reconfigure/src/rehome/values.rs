// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handlers by which users place tasks: `home_thread` of elements, and `threads` of the router.

use element::{ElementId, HandlerError};
use engine::{Control, Shared};

use super::place;
use super::plan::judge;
use crate::placement::{Moved, PlaceError, Placement};
use crate::placer::with_wanted;

/// `home_thread`, written: a worker, several for an element with several tasks, or `any`.
pub(crate) fn write_home(control: &Control, element: ElementId, value: &str) -> Result<String, HandlerError> {
    let shared = control.shared();
    let placement = home_value(&shared, element, value)?;
    place(control, &shared, &placement).map(said).map_err(failed)
}

/// `threads`, written: how many workers are to take part.
pub(crate) fn write_threads(control: &Control, value: &str) -> Result<String, HandlerError> {
    let shared = control.shared();
    place(control, &shared, &threads_value(&shared, value)?).map(said).map_err(failed)
}

pub(super) fn said(moved: Moved) -> String {
    if moved.tasks.is_empty() && moved.active.0 == moved.active.1 { String::new() } else { moved.to_string() }
}

pub(super) fn failed(why: PlaceError) -> HandlerError {
    HandlerError::Failed(why.to_string())
}

/// What a value written to `threads` means.
pub(crate) fn threads_value(shared: &Shared, value: &str) -> Result<Placement, HandlerError> {
    let active = value.trim().parse();
    let active = active.map_err(|_| HandlerError::bad_value("threads", value, "a number of workers"))?;
    if !(1..=shared.workers()).contains(&active) {
        return Err(failed(PlaceError::Active(shared.workers())));
    }
    Ok(Placement { active: Some(active), ..Placement::default() })
}

/// How many workers take part when what is asked for has come.
pub(super) fn to_come(shared: &Shared) -> usize {
    let wanted = shared.runtime().and_then(|runtime| with_wanted(&runtime, |w| w.placement.active));
    wanted.unwrap_or(shared.active_workers())
}

/// What a value written to `home_thread` means.
pub(crate) fn home_value(shared: &Shared, e: ElementId, value: &str) -> Result<Placement, HandlerError> {
    if value.trim() == "any" {
        return Ok(Placement { pins: vec![(e, false)], ..Placement::default() });
    }
    let numbers = value.split([',', ' ']).filter(|n| !n.is_empty()).map(|n| n.trim().parse().ok());
    let workers: Option<Vec<usize>> = numbers.collect();
    let expected = "a worker's number, several for an element with several tasks, or any";
    let workers = workers.ok_or_else(|| HandlerError::bad_value("home_thread", value, expected))?;
    judge(shared, e, &workers, to_come(shared)).map_err(failed)?;
    Ok(Placement { homes: vec![(e, workers)], active: None, pins: vec![(e, true)] })
}

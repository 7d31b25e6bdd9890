// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running router at a glance, from its statistics segment or its channel of statistics: the router is not asked anything.
//!
//! [`once`] prints one look, [`stream`] gives one after the other, and [`live`] shows the router on a terminal.
//!
//! * `watch` reads the segment, or a `channel`, or what a management API says (`far`).
//! * `look` makes two readings into rates, and `sheet` makes these into tables. `plain` prints them.
//! * `app` holds what the user chose, and `screen` draws it. `terminal` takes keys, and puts the terminal back as it was.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::sync::Arc;
use std::time::Duration;

mod app;
mod channel;
mod far;
mod look;
mod plain;
mod screen;
mod sheet;
mod terminal;
mod watch;

use client::Which;
use watch::{Gone, Watch};

pub use far::{Far, published};
pub use look::{Core, Drops, Element, Look, Port, Queue, Router, Table};
pub use terminal::live;

/// What is shown, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which router.
    pub router: Which,
    /// One that is somewhere else, in place of that.
    pub far: Option<Arc<dyn Far>>,
    /// Time between two looks; rates are those of this time.
    pub interval: Duration,
    /// Whether a router is waited for, also the next one when this one has ended.
    pub wait: bool,
    /// Only what has this in its name or class is shown.
    pub filter: String,
}

/// The shortest time between two looks.
pub const SHORTEST: Duration = Duration::from_millis(50);
/// The longest time between two looks.
pub const LONGEST: Duration = Duration::from_secs(3600);

/// Why there is nothing to see, or no more.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A live view needs a terminal.
    #[error("a live view needs a terminal; 'junctor top --once' prints one look")]
    NoTerminal,
    /// There is no such router.
    #[error(transparent)]
    Router(#[from] client::Failure),
    /// The router has ended, or what it publishes cannot be read.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The terminal cannot be used.
    #[error("the terminal cannot be used: {0}; 'junctor top --once' needs none")]
    Terminal(#[from] std::io::Error),
}

/// Opens what the router that is meant publishes.
fn open(settings: &Settings) -> Result<Watch, Failure> {
    let router = &settings.router;
    if let Some(far) = &settings.far {
        return Ok(Watch::far(far.clone())?);
    }
    if let Which::Channel(channel) = router {
        return Ok(Watch::channel(channel)?);
    }
    let (socket, stream) = client::locate(router)?;
    // It was there; nothing is asked of it.
    drop(stream);
    Ok(Watch::file(&stats::path_of(&socket)).map_err(Gone::from)?)
}

/// One look after the other as JSON, until `take` returns false or the router has ended.
///
/// With [`Settings::wait`] it goes on with the next router.
///
/// # Errors
/// There is no such router, or what it publishes cannot be read.
pub fn stream(settings: &Settings, mut take: impl FnMut(&Look) -> bool) -> Result<(), Failure> {
    loop {
        match stream_of_one(settings, &mut take) {
            Err(Failure::Router(_) | Failure::Gone(Gone::Ended)) if settings.wait => {
                std::thread::sleep(settings.interval);
            }
            Err(Failure::Gone(Gone::Ended)) => return Ok(()),
            done => return done,
        }
    }
}

fn stream_of_one(settings: &Settings, take: &mut impl FnMut(&Look) -> bool) -> Result<(), Failure> {
    let mut watch = open(settings)?;
    let mut before = watch.read()?;
    loop {
        std::thread::sleep(settings.interval);
        let now = watch.read_after(before.number)?;
        let mut look = Look::new(&watch.router(), &before, &now);
        look.retain(&settings.filter);
        if !take(&look) {
            return Ok(());
        }
        before = now;
    }
}

/// One look, as text or JSON.
///
/// # Errors
/// There is no such router, or it ends meanwhile.
pub fn once(settings: &Settings, as_json: bool) -> Result<String, Failure> {
    let mut watch = open(settings)?;
    let before = watch.read()?;
    std::thread::sleep(settings.interval);
    let now = watch.read_after(before.number)?;
    let mut look = Look::new(&watch.router(), &before, &now);
    look.retain(&settings.filter);
    Ok(if as_json { format!("{}\n", look.json()) } else { plain::text(&look) })
}

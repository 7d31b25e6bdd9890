// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal: keys come in, screens go out, and it is put back as it was on every way out (an end, an error, a signal, a panic).

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stats::Reading;

use super::app::{App, Wish};
use super::look::Look;
use super::screen::{self, Colours};
use super::watch::Watch;
use super::{Failure, LONGEST, SHORTEST, Settings, open};

/// How long keys are waited for at a time: a signal that ends the program waits as long.
const WAIT: Duration = Duration::from_millis(200);
/// How long the view has to end by itself.
const PATIENCE: Duration = Duration::from_secs(1);
/// The exit status of a process that a signal has ended in a live view.
const FAILED: i32 = 1;
/// When the second look comes at the latest.
const FIRST: Duration = Duration::from_millis(400);

/// Shows the router until the user has seen enough, or it is gone.
///
/// # Errors
/// There is no such router or no terminal, or one of them has gone.
pub fn live(settings: &Settings) -> Result<(), Failure> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::NoTerminal);
    }
    let first = match open(settings) {
        Ok(watch) => Some(watch),
        Err(_) if settings.wait => None,
        Err(why) => return Err(why),
    };
    let over = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT] {
        // Without it, the signal ends the program, and the terminal stays as it is.
        let _ = signal_hook::flag::register(signal, over.clone());
    }
    // Also puts the terminal back when there is a panic.
    let mut terminal = ratatui::try_init()?;
    end_without_fail(over.clone());
    let app = App::new(&settings.filter);
    let interval = settings.interval;
    let mut view = View { settings, interval, app, watch: first, last: None, next: Instant::now() };
    let done = view.run(&mut terminal, &over);
    // A terminal that has gone takes no words about it, either: those who print without asking would panic.
    if terminal.show_cursor().is_err() {
        std::mem::forget(terminal);
    }
    let _ = ratatui::try_restore();
    done
}

/// Ends the process where the view cannot, after a signal or when the terminal has gone (a connection by ssh that broke, say): who reads keys from a
/// terminal that has gone asks it again for ever (crossterm 0.29).
fn end_without_fail(over: Arc<AtomicBool>) {
    let watch = move || {
        let stdin = std::io::stdin();
        loop {
            let mut terminal = [PollFd::new(&stdin, PollFlags::empty())];
            let wait = Timespec { tv_sec: 0, tv_nsec: WAIT.as_nanos() as i64 };
            let gone = poll(&mut terminal, Some(&wait)).is_ok_and(|n| n > 0);
            if gone || over.load(Ordering::Relaxed) {
                over.store(true, Ordering::Relaxed);
                std::thread::sleep(PATIENCE);
                let _ = ratatui::try_restore();
                std::process::exit(FAILED);
            }
        }
    };
    // Without it, it ends wherever the terminal is there.
    let _ = std::thread::Builder::new().name("terminal".into()).spawn(watch);
}

struct View<'a> {
    settings: &'a Settings,
    interval: Duration,
    app: App,
    /// Nothing while a router is waited for.
    watch: Option<Watch>,
    last: Option<Reading>,
    /// When the next look is due.
    next: Instant,
}

impl View<'_> {
    fn run(&mut self, terminal: &mut DefaultTerminal, over: &AtomicBool) -> Result<(), Failure> {
        let colours = Colours(std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()));
        while !over.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now >= self.next {
                self.look()?;
                // The first one has no rates yet.
                let first = self.app.look().is_none_or(|look| look.seconds == 0.0);
                self.next = now + if first { self.interval.min(FIRST) } else { self.interval };
                terminal.draw(|frame| screen::draw(frame, &mut self.app, colours))?;
            }
            let wait = self.next.saturating_duration_since(Instant::now()).min(WAIT);
            if !event::poll(wait)? {
                continue;
            }
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                match self.app.press(key) {
                    Wish::Quit => return Ok(()),
                    Wish::Faster => self.interval = (self.interval / 2).max(SHORTEST),
                    Wish::Slower => self.interval = (self.interval * 2).min(LONGEST),
                    Wish::Nothing => {}
                }
            }
            // Also when the terminal has another size.
            terminal.draw(|frame| screen::draw(frame, &mut self.app, colours))?;
        }
        Ok(())
    }

    /// Takes a look.
    fn look(&mut self) -> Result<(), Failure> {
        if self.watch.is_none() {
            self.watch = open(self.settings).ok();
            self.last = None;
        }
        let Some(watch) = &mut self.watch else {
            self.app.forget("waiting for a router; q ends".into());
            return Ok(());
        };
        match watch.read() {
            Ok(now) => {
                // Nothing new: what was seen last still holds.
                if self.last.as_ref().is_some_and(|last| last.number == now.number) {
                    return Ok(());
                }
                let before = self.last.as_ref().unwrap_or(&now);
                self.app.take(Look::new(&watch.router(), before, &now));
                self.last = Some(now);
                Ok(())
            }
            Err(_) if self.settings.wait => {
                self.watch = None;
                self.app.forget("the router has ended; waiting for another; q ends".into());
                Ok(())
            }
            Err(why) => Err(why.into()),
        }
    }
}

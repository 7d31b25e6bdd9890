// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router that ends in order leaves to the process that takes its place, in memory that its parent holds: sessions and neighbours.
//!
//! An element whose sessions outlive the process has a handler `handover`. Read with a place, it gives the next place or `-`, then records, a line each. The
//! next process writes these lines to the handler of the element with the same name and class, then the line `-`.
//!
//! ```text
//! handover nat NAT44         records of this element follow
//! 0600...
//! neighbour arp0 10.0.0.2 02:00:00:00:00:02
//! ```

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use engine::{Access, Class, Router};
use ports::Keeper as _;
use rustix::fs::MemfdFlags;

use crate::kept::Kept;
use crate::state;

/// Under which name the memory is held. Another form of the text has another name.
const NAME: &str = "handover-1";
/// The handler.
const HANDOVER: &str = "handover";
/// Records that are written together.
const TOGETHER: usize = 1024;

fn hands_over(class: &Class) -> bool {
    class.handlers.iter().any(|handler| handler.name == HANDOVER && handler.access == Access::ReadWrite)
}

/// A thread that leaves things to the next process. It starts before the router runs: later, the main thread of a confined router makes nothing.
pub struct Leaver {
    texts: SyncSender<String>,
    is_done: Receiver<()>,
    kept: Arc<Kept>,
}

impl Leaver {
    /// Starts the thread.
    pub fn start(kept: Arc<Kept>) -> Leaver {
        let (texts, given) = sync_channel::<String>(1);
        let (done, is_done) = sync_channel(1);
        let mine = kept.clone();
        let body = move || {
            if let Ok(text) = given.recv() {
                leave(&text, &mine);
                let _ = done.send(());
            }
        };
        // Without it, nothing is left but what was before.
        let _ = std::thread::Builder::new().name("handover".into()).spawn(body);
        Leaver { texts, is_done, kept }
    }

    /// The router has stopped: leaves what it knows.
    pub fn leave(&self, router: &mut Router) {
        self.kept.running(false);
        if self.texts.send(text(router)).is_ok() {
            let _ = self.is_done.recv();
        }
    }
}

fn leave(text: &str, kept: &Kept) {
    let left = || -> std::io::Result<()> {
        let mut file = File::from(rustix::fs::memfd_create("junctor-handover", MemfdFlags::CLOEXEC)?);
        file.write_all(text.as_bytes())?;
        kept.keep(NAME, file.as_fd());
        Ok(())
    };
    if !text.is_empty()
        && let Err(why) = left()
    {
        errln!("junctor: warning: sessions are not handed over: {why}");
    }
    // A supervisor that has just started knows of nothing yet.
    kept.again();
}

fn text(router: &mut Router) -> String {
    let shared = router.shared().clone();
    let mut text = state::neighbours_of(&shared, |handler| router.read(handler, "").ok())
        .lines()
        .map(|line| format!("neighbour {line}\n"))
        .collect::<String>();
    for element in shared.elements.iter().filter(|element| hands_over(element.class)) {
        text += &format!("handover {} {}\n", element.name, element.class.name);
        let mut place = "0".to_owned();
        // One that does not answer leaves nothing.
        while let Ok(part) = router.read(&format!("{}.{HANDOVER}", element.name), &place) {
            let (next, records) = part.split_once('\n').unwrap_or((&part, ""));
            text += records;
            if next == "-" {
                break;
            }
            next.clone_into(&mut place);
        }
    }
    text
}

/// Takes over what an earlier process left, before the router runs.
pub fn take(router: &mut Router, kept: &Kept) {
    let Some(left) = kept.take(NAME) else { return };
    let mut file = File::from(left);
    let mut text = String::new();
    if file.rewind().and_then(|()| file.read_to_string(&mut text)).is_ok() {
        taken(router, &text);
    }
}

fn taken(router: &mut Router, text: &str) {
    let mut records: Vec<&str> = Vec::new();
    let mut to: Option<(&str, usize)> = None;
    for line in text.lines().chain(["end"]) {
        let words: Vec<&str> = line.split(' ').collect();
        let is_record = words.len() == 1 && line != "end";
        if is_record {
            records.push(line);
        }
        if let Some((name, count)) = &mut to
            && (!is_record || records.len() == TOGETHER)
        {
            *count += records.len();
            write(router, name, &records);
            records.clear();
        }
        if is_record {
            continue;
        }
        if let Some((name, count)) = to.take() {
            write(router, name, &["-"]);
            errln!("junctor: {name} goes on with {count} sessions of the process before");
        }
        records.clear();
        match words[..] {
            ["neighbour", element, address, mac] => {
                let _ = router.write(&format!("{element}.insert"), &format!("{address} {mac}"));
            }
            ["handover", name, class] => {
                let shared = router.shared();
                let mut elements = shared.elements.iter();
                let is_there = elements.any(|element| &*element.name == name && element.class.name == class);
                to = is_there.then_some((name, 0));
            }
            _ => {}
        }
    }
}

fn write(router: &mut Router, name: &str, lines: &[&str]) {
    if lines.is_empty() {
        return;
    }
    if let Err(why) = router.write(&format!("{name}.{HANDOVER}"), &lines.join("\n")) {
        errln!("junctor: warning: {name} does not take sessions over: {why}");
    }
}

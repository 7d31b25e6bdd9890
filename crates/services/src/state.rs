// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router goes on from when it is started again after it was killed (`run --state DIR`): the configuration that ran last, and
//! the neighbours that it knew.
//!
//! * `running.click`: the flat configuration, written at the start and after each swap. A router that begins with the file there
//!   takes it in place of its own configuration; SIGHUP reads its own one all the same.
//! * `neighbours`: lines of element, address and Ethernet address, written about once a second when they have changed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::{Access, Class, Control, Shared};
use lang::Graph;

use conf::Loaded;
use report::files;

/// How often neighbours are looked at, and for how many of them that much more seldom: a worker lists them.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const NEIGHBOURS_A_SECOND: u32 = 2000;

/// A directory for what survives.
#[derive(Clone, Debug)]
pub struct State {
    directory: PathBuf,
}

impl State {
    /// In this directory.
    pub fn new(directory: &Path) -> State {
        State { directory: directory.to_owned() }
    }

    fn configuration(&self) -> PathBuf {
        self.directory.join("running.click")
    }

    fn neighbours(&self) -> PathBuf {
        self.directory.join("neighbours")
    }

    /// The configuration that ran last, if there is one without errors; `options` have the libraries it may require.
    pub fn last(&self, mut options: lang::Options) -> Option<Loaded> {
        let path = self.configuration();
        let data = std::fs::read(&path).ok()?;
        // Its variables were replaced when it was read first.
        options.defines.clear();
        let loaded = Loaded::from(lang::load_data(&path.display().to_string(), None, &data, &options));
        if loaded.graph.is_none() {
            errln!("junctor: warning: {} cannot be used; starting anew", path.display());
            return None;
        }
        errln!("junctor: going on with the configuration that ran last, {}", path.display());
        Some(loaded)
    }

    /// Keeps a configuration.
    pub fn keep(&self, graph: &Graph) {
        let path = self.configuration();
        if let Err(why) = self.write(&path, &graph.to_click()) {
            errln!(
                "junctor: warning: {}: {why}; a restart would begin with the first configuration",
                path.display()
            );
        }
    }

    fn write(&self, path: &Path, text: &str) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        files::replace_privately(path, |file| file.write_all(text.as_bytes()))
    }

    /// Teaches a router that runs the neighbours that were kept, and keeps those that it knows from now on.
    pub fn keep_neighbours(&self, control: Control) {
        let state = self.clone();
        let body = move || {
            let mut kept = std::fs::read_to_string(state.neighbours()).unwrap_or_default();
            teach(&control, &kept);
            let mut complained = false;
            loop {
                let Some(known) = neighbours(&control) else { return };
                if known != kept {
                    let written = state.write(&state.neighbours(), &known);
                    if let (Err(why), false) = (&written, complained) {
                        errln!("junctor: warning: {}: {why}", state.neighbours().display());
                    }
                    complained = written.is_err();
                    kept = known;
                }
                let count = kept.lines().count() as u32;
                std::thread::sleep(LOOK_EVERY * (1 + count / NEIGHBOURS_A_SECOND));
            }
        };
        let _ = std::thread::Builder::new().name("neighbours".into()).spawn(body);
    }
}

/// Whether elements of a class can tell their neighbours and be taught some.
fn resolves(class: &Class) -> bool {
    let has = |name, access| class.handlers.iter().any(|h| h.name == name && h.access == access);
    has("states", Access::Read) && has("insert", Access::Write)
}

/// The neighbours that elements have learned from others; nothing when the router has stopped.
fn neighbours(control: &Control) -> Option<String> {
    let shared = control.shared();
    let mut has_stopped = false;
    let text = neighbours_of(&shared, |handler| {
        // The answer may be that a worker stands still.
        let states = control.read(handler, "").ok();
        has_stopped |= states.is_none() && shared.is_stopped();
        states
    });
    (!has_stopped).then_some(text)
}

/// The same by the `states` of elements, which `read` reads.
pub(crate) fn neighbours_of(shared: &Shared, mut read: impl FnMut(&str) -> Option<String>) -> String {
    let mut text = String::new();
    for element in shared.elements.iter().filter(|element| resolves(element.class)) {
        for line in read(&format!("{}.states", element.name)).unwrap_or_default().lines() {
            // Address, whether it is known, Ethernet address, age, state.
            let words: Vec<&str> = line.split(' ').collect();
            if let [ip, "1", mac, _, state, ..] = words[..]
                && state != "permanent"
            {
                let _ = writeln!(text, "{} {ip} {mac}", element.name);
            }
        }
    }
    text
}

/// Neighbours of elements that there are not any more are left out.
fn teach(control: &Control, kept: &str) {
    for line in kept.lines() {
        if let Some((element, neighbour)) = line.split_once(' ') {
            let _ = control.write(&format!("{element}.insert"), neighbour);
        }
    }
}

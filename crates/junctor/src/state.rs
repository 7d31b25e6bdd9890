// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router goes on from when it is started again after it was killed: the configuration that ran last (`run --state DIR`).
//!
//! The file holds the flat configuration, written at the start and after each swap. A router that begins with the file there takes it
//! in place of its own configuration; SIGHUP reads its own one all the same.

use std::path::{Path, PathBuf};

use lang::Graph;

use crate::config::{Loaded, Source};
use crate::files;

/// A directory for what survives.
#[derive(Clone, Debug)]
pub(crate) struct State {
    directory: PathBuf,
}

impl State {
    pub(crate) fn new(directory: &Path) -> State {
        State { directory: directory.to_owned() }
    }

    fn configuration(&self) -> PathBuf {
        self.directory.join("running.click")
    }

    /// The configuration that ran last, if there is one without errors.
    pub(crate) fn last(&self, source: &Source) -> Option<Loaded> {
        let path = self.configuration();
        let data = std::fs::read(&path).ok()?;
        let mut options = source.options().ok()?;
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
    pub(crate) fn keep(&self, graph: &Graph) {
        let path = self.configuration();
        let text = graph.to_click();
        let kept = std::fs::create_dir_all(&self.directory)
            .and_then(|()| files::replace_privately(&path, |file| file.write_all(text.as_bytes())));
        if let Err(why) = kept {
            errln!(
                "junctor: warning: {}: {why}; a restart would begin with the first configuration",
                path.display()
            );
        }
    }
}

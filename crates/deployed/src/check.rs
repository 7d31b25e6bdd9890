// SPDX-License-Identifier: MIT OR Apache-2.0
//! A deployment's file, and what it asks of this machine.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use conf::Loaded;
use planes::groups::Groups;
use planes::{Cpus, Deployment, deployment};

use crate::Error;

/// A deployment that was read and held against this machine.
pub struct Checked {
    /// What is wrong with it, in [`Loaded::diagnostics`].
    pub loaded: Loaded,
    pub(crate) deployment: Option<Deployment>,
    /// The machine has what it needs.
    pub sound: bool,
    /// What planes will share, a line each.
    pub shared: Vec<String>,
    path: PathBuf,
    text: String,
    pub(crate) allowed: Cpus,
    pub(crate) groups: Groups,
}

/// Bytes of a deployment's file.
const LONGEST: u64 = 1 << 20;

/// Reads a deployment and compares it with the machine.
///
/// # Errors
/// The file cannot be read, or is too long.
pub fn check(path: &Path) -> Result<Checked, Error> {
    check_from(path, None)
}

/// The same for a file whose relative paths begin in another directory, if one is given.
///
/// # Errors
/// The file cannot be read, or is too long.
pub fn check_from(path: &Path, directory: Option<&Path>) -> Result<Checked, Error> {
    let unread = |why| Error::Unread { file: path.to_owned(), why };
    let file = sync::pipes::open(path, sync::pipes::PATIENCE).map_err(unread)?;
    let text = std::io::read_to_string(file.take(LONGEST + 1)).map_err(unread)?;
    if text.len() as u64 > LONGEST {
        return Err(Error::TooLong { file: path.to_owned(), most: LONGEST });
    }
    let name = path.file_name().unwrap_or_default();
    let path = directory.map_or_else(|| path.to_owned(), |directory| directory.join(name));
    Ok(check_text(&path, text))
}

pub(crate) fn check_text(path: &Path, text: String) -> Checked {
    let read = deployment::read(path, &text);
    let allowed: Cpus = conf::cores::allowed().into_iter().collect();
    let groups = groups_of(read.deployment.as_ref());
    let mut diagnostics = read.diagnostics;
    let (mut shared, mut sound) = (Vec::new(), false);
    if let Some(deployment) = &read.deployment {
        let found = deployment::check(deployment, &read.places, &allowed, &groups);
        sound = !found.is_bad();
        diagnostics.extend(found.diagnostics);
        shared = found.shared;
    }
    let loaded = Loaded { sources: read.sources, graph: None, diagnostics };
    Checked {
        loaded,
        deployment: read.deployment,
        sound,
        shared,
        path: path.to_owned(),
        text,
        allowed,
        groups,
    }
}

/// Where the groups of a deployment lie, or can be made.
fn groups_of(deployment: Option<&Deployment>) -> Groups {
    let files =
        deployment.and_then(|deployment| Some((&deployment.name, client::files_of(&deployment.name).ok()?)));
    files.map_or_else(Groups::find, |(name, files)| {
        let (groups, exclusive) = files.groups();
        Groups::find().recalled(name, (&groups, &exclusive))
    })
}

impl Checked {
    /// The file's name and text, from which a deployment that has lost its supervisor is stopped.
    pub(crate) fn saved(&self) -> String {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        format!("{}\n{}", path.display(), self.text)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! One commit takes the place of another: the list of actions, carried out or taken back as a whole.

use std::path::Path;

use saved::{Action, Files, Forbidden, Layout};

use super::Service;
use crate::keeper::CONFINED;
use crate::saved::layout;

/// Why a commit is not in service.
pub(super) enum Failed {
    /// All was put back.
    PutBack(String),
    /// It could not be put back as a whole.
    Unsettled(String),
}

impl Service {
    /// Writes the deployment of a commit where the supervisor reads it.
    fn write_deployment(&self, commit: u64) -> Result<(), String> {
        let files = self.store.files(commit).map_err(|why| why.to_string())?;
        let text = layout::text(&self.place.name, &files)?;
        let path = self.supervised.deployment();
        let written = report::files::replace_privately(path, |file| file.write_all(text.as_bytes()));
        written.map_err(|why| format!("{}: {why}", path.display()))
    }

    fn planes_of(&self, commit: u64) -> Result<(Layout, Files), String> {
        let files = self.store.files(commit).map_err(|why| why.to_string())?;
        Ok((layout::layout(&self.place.name, &files)?, files))
    }

    /// Puts a commit into service; returns what was done. If a part of it fails, all is put back.
    pub(super) fn switch(&mut self, from: u64, to: u64) -> Result<Vec<String>, String> {
        // A service that starts after a cut has to look at planes of both.
        self.store.set_switching(Some([from, to])).map_err(|why| why.to_string())?;
        let done = self.transfer(from, to);
        if !matches!(done, Err(Failed::Unsettled(_)))
            && let Err(why) = self.store.set_switching(None)
        {
            self.say(&format!(
                "the end of a switch is not saved, so the next start looks at it again: {why}"
            ));
        }
        done.map_err(|(Failed::PutBack(why) | Failed::Unsettled(why))| why)
    }

    /// The same without a note for the next start.
    pub(super) fn transfer(&mut self, from: u64, to: u64) -> Result<Vec<String>, Failed> {
        let (new, new_files) = self.planes_of(to).map_err(Failed::PutBack)?;
        let actions = match self.planes_of(from) {
            Ok((old, old_files)) => saved::plan((&old, &old_files), (&new, &new_files)),
            // What is damaged can still be left.
            Err(why) => {
                self.say(&format!("{why}; all planes are started anew"));
                vec![Action::RestartAll]
            }
        };
        let mut texts: Vec<String> = actions.iter().map(Action::to_string).collect();
        let done = self.lead_to(to).map_err(|why| (0, why)).and_then(|()| self.act_all(&actions));
        let (tried, why) = match done {
            Ok(notes) => {
                texts.extend(notes);
                texts.iter().for_each(|text| self.say(text));
                return Ok(texts);
            }
            Err(failed) => failed,
        };
        let action = tried.checked_sub(1).map(|last| format!("{}: ", texts[last]));
        let why = format!("{}{why}", action.unwrap_or_default());
        self.say(&format!("{why}; going back to commit {from}"));
        self.lead_to(from).map_err(Failed::Unsettled)?;
        if self.is_to_end() {
            // All planes end now. The next start looks at them again.
            return Err(Failed::Unsettled(why));
        }
        if let Err((_, failed)) = self.act_all(&saved::undo(&actions[..tried])) {
            self.say(&format!("{failed}; starting all planes of commit {from} anew"));
            self.supervised.restart_all().map_err(Failed::Unsettled)?;
        }
        Err(Failed::PutBack(why))
    }

    /// Has the files of a commit be those that planes find.
    pub(super) fn lead_to(&self, commit: u64) -> Result<(), String> {
        self.store.set_live(commit).map_err(|why| why.to_string())?;
        self.write_deployment(commit)
    }

    /// Carries out actions, and returns what else there is to say; or says how many were tried, and why the last one failed.
    fn act_all(&mut self, actions: &[Action]) -> Result<Vec<String>, (usize, String)> {
        let mut notes = Vec::new();
        for (number, action) in actions.iter().enumerate() {
            if let Action::Swap { plane, .. } = action {
                notes.extend(self.swap(plane).map_err(|why| (number + 1, why))?);
            } else {
                self.act(action).map_err(|why| (number + 1, why))?;
            }
        }
        Ok(notes)
    }

    /// Has a router take the commit in service. One that is confined too much for it is started again, if a start can succeed, and this is said.
    fn swap(&mut self, plane: &str) -> Result<Option<String>, String> {
        let why = match self.supervised.swap_in_place(plane) {
            Err(why) if why.contains(CONFINED) => why,
            done => return done.map(|()| None),
        };
        self.may_start(&why)?;
        let why = why.trim_end();
        self.supervised.restart(plane).map_err(|failed| format!("{why}\nIt was started again: {failed}"))?;
        Ok(Some(format!("plane {plane} was started again for this configuration: {why}")))
    }

    /// Whether a router that is started anew can take what the running one refuses for this reason. Both have the rights of this service at their start, and so
    /// has the check.
    fn may_start(&self, why: &str) -> Result<(), String> {
        if let Some(forbidden) = unreadable(why, self.supervised.live()) {
            return Err(format!("{forbidden}. A router that is started again cannot read it either"));
        }
        let program = Path::new("/proc/self/exe");
        let output = self.rehearsed(program, &["--live"]).map_err(|why| format!("a check: {why}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()),
        }
    }

    fn act(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Swap { plane, .. } => self.swap(plane).map(drop),
            Action::Supervise => self.supervised.hand_over(),
            // The supervisor has stopped it when it took over.
            Action::Stop { .. } => Ok(()),
            Action::Start { plane } => self.supervised.await_plane(plane),
            Action::Restart { plane, .. } => self.supervised.restart(plane),
            Action::RestartAll => self.supervised.restart_all(),
        }
    }
}

/// The file among the words of a refusal that this service may not read itself. Relative paths begin in a directory.
fn unreadable(why: &str, directory: &Path) -> Option<Forbidden> {
    let lines = why.lines().filter(|line| line.to_lowercase().contains("permission denied"));
    let ends = |c: char| c.is_whitespace() || matches!(c, ':' | ',' | '(' | ')' | '"' | '\'' | '`');
    let words = lines.flat_map(|line| line.split(ends)).filter(|word| !word.is_empty());
    words.map(|word| directory.join(word)).find_map(|path| saved::disk::forbidden(&path))
}

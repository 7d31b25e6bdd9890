// SPDX-License-Identifier: MIT OR Apache-2.0
//! What planes have printed, from their logs.

use std::io;
use std::time::Duration;

use planes::logs::{self, Follower};
use planes::up::Files;

use crate::Error;

/// How often a followed log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The logs of some planes of a deployment.
pub struct Logs {
    files: Files,
    planes: Vec<String>,
    /// Names are filled up to so many columns.
    width: usize,
}

impl Logs {
    /// Of this plane, or of all.
    ///
    /// # Errors
    /// The plane has no log.
    pub fn of(deployment: &str, files: Files, plane: Option<&str>) -> Result<Logs, Error> {
        let known = logged(&files);
        let planes = match plane {
            Some(plane) if known.iter().any(|other| other == plane) => vec![plane.to_owned()],
            Some(plane) => {
                let (deployment, known) = (deployment.to_owned(), crate::listed(&known));
                return Err(Error::NoLog { deployment, plane: plane.to_owned(), known });
            }
            None => known,
        };
        let width = planes.iter().map(String::len).max().unwrap_or(0);
        Ok(Logs { files, planes, width })
    }

    fn form(&self, plane: &str, line: &str) -> String {
        let width = self.width;
        if self.planes.len() == 1 { format!("{line}\n") } else { format!("{plane:width$} | {line}\n") }
    }

    /// Prints the last lines of each; with `follow` also what is printed from now on, until nobody reads it any more.
    ///
    /// # Errors
    /// A log cannot be read.
    pub fn print(&self, lines: usize, follow: bool) -> Result<(), Error> {
        let file = |plane: &String| self.files.log(plane);
        let mut followers: Vec<Follower> =
            self.planes.iter().map(|plane| Follower::new(file(plane), false)).collect();
        for plane in &self.planes {
            let last = logs::last(&file(plane), 0, lines);
            let last = last.map_err(|why| Error::Log { file: file(plane), why })?;
            last.iter().for_each(|line| out!("{}", self.form(plane, line)));
        }
        if follow {
            while self.print_new(&mut followers).is_ok() {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }

    fn print_new(&self, followers: &mut [Follower]) -> io::Result<()> {
        for (plane, follower) in self.planes.iter().zip(followers) {
            for line in follower.lines() {
                report::say::print(self.form(plane, &line).as_bytes())?;
            }
        }
        Ok(())
    }
}

/// Planes that have a log.
fn logged(files: &Files) -> Vec<String> {
    let entries = std::fs::read_dir(files.directory()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".log")?.to_owned())).collect();
    names.sort();
    names
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a device under test is reset.

use std::process::Command;

use tester::search::reset::ResetKind;
use tester::station::Reset;
use tester::trial::Invalid;

use super::device::{ANOTHER_WORKER, Name, Running};
use super::interrupt;
use crate::Error;

/// What is done to a configuration in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigurationReset {
    /// It is ended, and built and started anew.
    Restart,
    /// It is swapped for itself while it runs.
    Swap,
    /// One of its workers (-j) is retired and added again.
    Worker,
}

/// What is reset, as RFC 6201 distinguishes resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A route processor.
    RouteProcessor,
    /// A line card.
    LineCard,
    /// The operating system.
    OperatingSystem,
    /// A process.
    Process,
    /// The power.
    Power,
}

/// Said of devices that are reset in a way of their own.
const UNKNOWN: &str = "how is this device reset? Say it with --reset-command";

/// How the device is reset.
#[derive(Clone, Debug)]
pub struct Method {
    /// How a configuration in this process is reset.
    pub reset: ConfigurationReset,
    /// A shell command that resets the device, instead.
    pub reset_command: Option<String>,
    /// What that command resets (RFC 6201 4).
    pub reset_kind: What,
}

impl Method {
    /// What is reset.
    pub(super) fn kind(&self) -> ResetKind {
        match self.reset_kind {
            What::RouteProcessor => ResetKind::RouteProcessor,
            What::LineCard => ResetKind::LineCard,
            What::OperatingSystem => ResetKind::OperatingSystem,
            What::Process => ResetKind::Process,
            What::Power => ResetKind::Power,
        }
    }

    /// What is reset and how, for conditions. How a command does it is the device's own.
    pub(super) fn words(&self) -> String {
        match self.reset_command {
            Some(_) => format!("{} by a command", self.kind()),
            None => format!("{:?}", self.reset).to_lowercase(),
        }
    }

    /// Sees that this device, with so many workers, can be reset so: asked before anything is measured.
    pub(super) fn check(&self, device: &Name, workers: usize) -> Result<(), Error> {
        match device {
            _ if self.reset_command.is_some() => Ok(()),
            Name::Own(_) if self.reset == ConfigurationReset::Worker && workers < 2 => {
                Err(Error::setting(ANOTHER_WORKER))
            }
            Name::Own(_) => Ok(()),
            other => Err(Error::setting(format!("{other}: {UNKNOWN}"))),
        }
    }

    /// Resets this device.
    pub(super) fn of<'a>(&self, running: Option<&'a mut Running>) -> Result<Box<Reset<'a>>, Error> {
        let way = self.reset;
        match (&self.reset_command, running) {
            (Some(command), _) => {
                let command = command.clone();
                Ok(Box::new(move || shell(&command)))
            }
            (None, Some(running)) => Ok(Box::new(move || {
                let done = match way {
                    ConfigurationReset::Restart => running.restart(),
                    ConfigurationReset::Swap => running.swap(),
                    ConfigurationReset::Worker => running.cycle_worker(),
                };
                done.map_err(|why| Invalid::new(format!("the device could not be reset: {why}"), ""))
            })),
            (None, None) => Err(Error::setting(UNKNOWN)),
        }
    }
}

/// Runs a shell command to its end.
pub(super) fn shell(command: &str) -> Result<(), Invalid> {
    shell_with(command, &[])
}

/// The same with these words in its environment.
pub(super) fn shell_with(command: &str, environment: &[(&str, &str)]) -> Result<(), Invalid> {
    let failed = |how: String| Invalid::new(format!("'{command}' {how}"), "see that it runs by itself");
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).envs(environment.iter().copied());
    let output = interrupt::run(&mut shell);
    let output = output.map_err(|why| failed(format!("could not be carried out: {why}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match said.trim().lines().last() {
        _ if output.status.success() => Ok(()),
        Some(said) => Err(failed(format!("failed ({}): {said}", output.status))),
        None => Err(failed(format!("failed ({})", output.status))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_says_so() {
        assert_eq!(shell("true"), Ok(()));
        let said = shell("echo no power >&2; exit 3").expect_err("a failure").to_string();
        assert!(said.contains("exit 3' failed (exit status: 3): no power; see that it runs"), "{said}");
        assert!(shell("exit 1").is_err());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the API knows of routers: one trait, so that it is tested without any.

use std::path::PathBuf;
use std::process::Command;

use client::Client;
use stats::Reading;

use crate::problem::Problem;

/// A running router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name in paths: the number of its process, `DEPLOYMENT.PLANE`, or the one that the command line gave it.
    pub name: String,
    /// Its process, if it is known.
    pub pid: Option<u32>,
    /// Where its control socket is.
    pub socket: String,
}

/// What a router publishes at one moment.
#[derive(Clone, Debug)]
pub struct Published {
    /// Its process.
    pub pid: u32,
    /// When it began, in nanoseconds since the epoch.
    pub started_ns: u64,
    /// What it counts.
    pub reading: Reading,
}

/// A service with saved configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Its name.
    pub name: String,
    /// Directories of its files, its commits and its socket, if they are not the usual ones.
    pub directories: Option<[PathBuf; 3]>,
}

/// Running routers.
pub trait Routers: Send + Sync {
    /// All of them, by name.
    fn list(&self) -> Vec<Found>;

    /// Connects to the control socket of one.
    ///
    /// # Errors
    /// There is none of this name, or it does not answer.
    fn client(&self, name: &str) -> Result<Client, Problem>;

    /// What one publishes now. It is read from shared memory: the router is not asked.
    ///
    /// # Errors
    /// There is none of this name, or it publishes nothing.
    fn published(&self, name: &str) -> Result<Published, Problem>;

    /// Connects to the control plane.
    ///
    /// # Errors
    /// There is none, or it does not answer.
    fn control_plane(&self) -> Result<Client, Problem>;

    /// Services with saved configurations, by name.
    fn services(&self) -> Vec<Saved>;

    /// A command of `junctor` in a process of its own: a subcommand with its options for the router of this name, if it is for one, and
    /// then words that are no options.
    ///
    /// # Errors
    /// There is none of this name.
    fn command(&self, router: Option<&str>, options: &[String], words: &[String])
    -> Result<Command, Problem>;
}

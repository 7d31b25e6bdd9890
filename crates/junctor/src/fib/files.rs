// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of commands that read route files.

use std::net::IpAddr;
use std::path::PathBuf;

use ::fib::Tables;
use tables::routes::{Form, Options};

/// How route files are read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct How {
    /// The files' form, where it cannot be recognised from their beginning.
    #[arg(long, value_enum, value_name = "FORM")]
    from: Option<FormName>,
    /// MRT dumps only: take the routes of this peer; without it, for each prefix those with the shortest AS path.
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<IpAddr>,
    /// `ip route` only: take the routes that are marked as of this table, not those of the main table.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum FormName {
    /// `PREFIX/LEN ID` lines.
    Text,
    /// What `ip route show` prints.
    Ip,
    /// An MRT table dump.
    Mrt,
}

impl From<&How> for Options {
    fn from(how: &How) -> Options {
        let form = how.from.map(|form| match form {
            FormName::Text => Form::Text,
            FormName::Ip => Form::IpRoute,
            FormName::Mrt => Form::Mrt,
        });
        Options { form, peer: how.peer, table: how.table.clone() }
    }
}

impl How {
    /// The tables of all `files`; the error is for the user.
    pub(crate) fn load(&self, files: &[PathBuf]) -> Result<Tables, String> {
        Tables::load(&self.into(), files).map_err(|why| why.to_string())
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of commands that ask a router of another machine, by its management API.

use std::path::PathBuf;

use manage::remote::{self, Error, Service};

/// The variable that has the token.
const TOKEN: &str = "JUNCTOR_TOKEN";

/// A router behind a management API.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Remote {
    /// The router behind a management API (junctor manage): https://HOST:PORT[/ROUTER], http://127.0.0.1:PORT[/ROUTER] or unix:PATH[#ROUTER]. Its
    /// token is in the variable JUNCTOR_TOKEN, or in the file of --token.
    #[arg(long, value_name = "URL", value_parser = remote::parse, conflicts_with_all = ["socket", "pid", "channel"], help_heading = "Router")]
    remote: Option<remote::Remote>,
    /// The file of the token.
    #[arg(long, value_name = "FILE", requires = "remote", help_heading = "Router")]
    token: Option<PathBuf>,
    /// The authority that has signed the service's certificate [default: those of the system].
    #[arg(long, value_name = "FILE", requires = "remote", help_heading = "Router")]
    ca: Option<PathBuf>,
}

impl Remote {
    /// The service, if one is named.
    ///
    /// # Errors
    /// The file of the token cannot be read.
    pub(crate) fn service(&self) -> Result<Option<Service>, String> {
        let Some(remote) = &self.remote else { return Ok(None) };
        let token = match &self.token {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|why| format!("--token {}: {why}", path.display()))?;
                Some(text.lines().next().unwrap_or_default().trim().to_owned())
            }
            None => std::env::var(TOKEN).ok().filter(|token| !token.is_empty()),
        };
        if token.as_deref().is_some_and(|token| !token.bytes().all(|b| b.is_ascii_graphic())) {
            return Err("the token has characters that no token has; see 'junctor manage --new-token'".into());
        }
        Ok(Some(Service::new(remote.clone(), token, self.ca.clone())))
    }
}

/// The same as a failure of a router nearby.
pub(crate) fn failure(why: Error) -> client::Failure {
    match why {
        Error::Refused(status, words) => client::Failure::Refused(status, words),
        which @ Error::Which(_) => client::Failure::Unclear(which.to_string()),
        other => client::Failure::Unreachable(other.to_string()),
    }
}

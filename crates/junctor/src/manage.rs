// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor manage`: the options of the management API and metrics, which the crate `manage` serves.

use std::net::SocketAddr;
use std::path::PathBuf;

use confine::privileges::User;
use manage::access::new_token;
use manage::openapi;
use manage::route::Role;
use manage::routers::Saved;
use manage::serve::Place;
use manage::service::{self, Options};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{confinement, exit, outcome};

/// Serve the management API and metrics of the routers of this machine.
///
/// A process of its own: no worker waits for it. It finds routers by their control sockets, and runs as the user that may open these.
/// Over the Unix socket its own user and root may do everything. Over TCP each request needs a token or a client certificate, and TLS beyond this machine.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor manage                                        at /run/junctor/api.sock
  curl --unix-socket /run/junctor/api.sock http://localhost/api/v1/routers
  junctor manage --new-token alice:viewer               prints a token, and its line for the file of --tokens
  junctor manage --listen 127.0.0.1:8473 --tokens tokens.txt
  junctor manage --listen 0.0.0.0:8473 --tls cert.pem key.pem --tokens tokens.txt --host router.example
  junctor manage --openapi > openapi.json")]
pub(crate) struct Args {
    /// Where to listen: unix:PATH or ADDRESS:PORT; may be repeated [default: unix:/run/junctor/api.sock, or a socket that systemd hands over].
    #[arg(long, value_name = "PLACE", value_parser = listen_at, help_heading = "Sockets")]
    listen: Vec<At>,
    /// Let this group use the Unix socket, too.
    #[arg(long, value_name = "GROUP", value_parser = ctl::group, help_heading = "Sockets")]
    group: Option<u32>,
    /// Names of this machine that requests over TCP may name as their host; addresses and localhost always may.
    #[arg(long, value_name = "NAME", help_heading = "Sockets")]
    host: Vec<String>,
    /// The certificate, and its key.
    #[arg(long, num_args = 2, value_names = ["CERT", "KEY"], help_heading = "Security")]
    tls: Vec<PathBuf>,
    /// The authority that signs certificates of clients.
    #[arg(long, value_name = "FILE", requires = "tls", help_heading = "Security")]
    client_ca: Option<PathBuf>,
    /// The role of clients with a certificate that the file of tokens does not name [default: they are refused].
    #[arg(long, value_name = "ROLE", value_parser = role, requires = "client_ca", help_heading = "Security")]
    client_role: Option<Role>,
    /// The file of tokens: lines NAME ROLE sha256:HASH, or cert:HASH for a certificate.
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    tokens: Option<PathBuf>,
    /// The role of other users of the Unix socket [default: operator].
    #[arg(long, value_name = "ROLE", value_parser = role, help_heading = "Security")]
    group_role: Option<Role>,
    /// Let everybody read /metrics.
    #[arg(long, help_heading = "Security")]
    open_metrics: bool,
    /// Append the audit log to this file [default: standard error].
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    audit: Option<PathBuf>,
    /// Become this user, with --confine, when all sockets listen. It must be able to open the control sockets of routers (run --control-group).
    #[arg(long, value_name = "NAME", help_heading = "Confinement")]
    user: Option<String>,
    #[command(flatten)]
    confinement: confinement::Options,
    /// A router at a control socket elsewhere, and its name; may be repeated.
    #[arg(long, value_name = "NAME=SOCKET", value_parser = named, help_heading = "Routers")]
    router: Vec<(String, PathBuf)>,
    /// A service with saved configurations in other directories than the usual ones: those of its files, its commits and its socket; may
    /// be repeated.
    #[arg(long, value_name = "NAME=ETC,STATE,RUN", value_parser = saved, help_heading = "Routers")]
    service: Vec<Saved>,
    /// The socket of the control plane [default: that of the only one of this user].
    #[arg(long, value_name = "PATH", help_heading = "Routers")]
    control_plane: Option<PathBuf>,
    /// Make a token for somebody with a role (viewer, operator, admin), and print it; serves nothing.
    #[arg(long, value_name = "NAME:ROLE", value_parser = holder, exclusive = true)]
    new_token: Option<(String, Role)>,
    /// Print the description of the API (OpenAPI); serves nothing.
    #[arg(long, exclusive = true)]
    openapi: bool,
}

/// A place to listen at.
#[derive(Clone, Debug)]
enum At {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

fn listen_at(text: &str) -> Result<At, String> {
    match text.strip_prefix("unix:") {
        Some(path) if !path.is_empty() => Ok(At::Unix(path.into())),
        _ => text
            .parse()
            .map(At::Tcp)
            .map_err(|_| "expected unix:PATH, or ADDRESS:PORT such as 127.0.0.1:8473".into()),
    }
}

fn role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| "expected viewer, operator or admin".into())
}

fn named(text: &str) -> Result<(String, PathBuf), String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    match text.split_once('=') {
        Some((name, path)) if is_name(name) && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err("expected NAME=SOCKET, with a name of letters, digits, '.', '_' and '-'".into()),
    }
}

fn saved(text: &str) -> Result<Saved, String> {
    let split = || {
        let (name, paths) = text.split_once('=')?;
        let paths: Vec<PathBuf> = paths.split(',').map(PathBuf::from).collect();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_name = !name.is_empty() && name.chars().all(plain) && !name.starts_with('-');
        let directories = <[PathBuf; 3]>::try_from(paths).ok().filter(|_| is_name)?;
        directories.iter().all(|path| path.is_absolute()).then_some((name, directories))
    };
    let (name, directories) = split().ok_or("expected NAME=ETC,STATE,RUN, with absolute paths")?;
    Ok(Saved { name: name.to_owned(), directories: Some(directories) })
}

fn holder(text: &str) -> Result<(String, Role), String> {
    let expected = "expected NAME:ROLE, with a name of letters, digits, '.', '_' and '-'";
    let (name, role_name) = text.split_once(':').ok_or(expected)?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if is_name { role(role_name).map(|role| (name.to_owned(), role)) } else { Err(expected.into()) }
}

impl Args {
    /// The sockets: those that were asked for, those that were handed over, or the usual one.
    fn places(&self) -> Result<Vec<Place>, String> {
        let asked = self.listen.iter().map(|at| match at {
            At::Unix(path) => Place::Unix(path.clone(), self.group),
            At::Tcp(address) => Place::Tcp(*address),
        });
        let mut places: Vec<Place> = asked.collect();
        places.extend(manage::serve::inherited());
        if places.is_empty() {
            let directory = client::directory();
            let why = "there is no directory for the socket, because XDG_RUNTIME_DIR is not set; name one by --listen unix:PATH";
            places.push(Place::Unix(directory.ok_or(why)?.join("api.sock"), self.group));
        }
        Ok(places)
    }

    fn options(&self) -> Result<Options, String> {
        let tls = match &self.tls[..] {
            [certificate, key] => Some((certificate.clone(), key.clone())),
            _ => None,
        };
        Ok(Options {
            listen: self.places()?,
            tls,
            client_authority: self.client_ca.clone(),
            certificate_role: self.client_role,
            tokens: self.tokens.clone(),
            group_role: self.group_role,
            hosts: self.host.clone(),
            has_open_metrics: self.open_metrics,
            audit: self.audit.clone(),
            routers: self.router.clone(),
            services: self.service.clone(),
            control_plane: self.control_plane.clone(),
            // It stays the one that runs, also when a package replaces the file.
            program: PathBuf::from("/proc/self/exe"),
        })
    }
}

/// Directories of the routers and services of this machine, if they are there: sockets and statistics, configurations, commits.
const OF_ROUTERS: [&str; 3] = ["/run/junctor", "/etc/junctor", "/var/lib/junctor"];

impl Args {
    /// What the service does when it serves: it looks for routers, reads statistics next to their sockets, and starts jobs of this program, which have
    /// its rights.
    fn fences(&self, options: &Options) -> Result<confinement::Needs, confine::Error> {
        if self.user.is_some() && !self.confinement.is_on() {
            return Err(confine::Error::NotConfined);
        }
        let user = self.user.as_deref().map(User::named).transpose()?;
        let sockets = options.listen.iter().filter_map(|place| match place {
            Place::Unix(path, _) => Some(path),
            _ => None,
        });
        let routers = self.router.iter().map(|(_, path)| path).chain(self.control_plane.iter());
        let mut read: Vec<PathBuf> = OF_ROUTERS.iter().map(PathBuf::from).collect();
        // Routers of other users have their sockets next to those of this one.
        let (ours, others) = (client::directory(), client::of_users());
        let list = ours.iter().map(|ours| confinement::directory(ours)).collect();
        read.extend(ours.into_iter().chain(others));
        read.extend(client::control_planes());
        read.extend(client::deployments());
        read.extend(routers.map(|path| confinement::directory(path)));
        let mut write: Vec<PathBuf> = sockets.map(|path| confinement::directory(path)).collect();
        write.push(std::env::temp_dir());
        Ok(confinement::Needs { user, list, read, write, runs_itself: true, ..confinement::Needs::default() })
    }
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    if args.openapi {
        return outcome::print_or_fail(format!("{:#}\n", openapi::document()).as_bytes());
    }
    if let Some((name, role)) = &args.new_token {
        let Ok((token, line)) = new_token(name, *role) else {
            return outcome::fail("the system gives no random numbers");
        };
        return outcome::print_or_fail(format!("{token}\n{line}\n").as_bytes());
    }
    let options = match args.options() {
        Ok(options) => options,
        Err(why) => return outcome::usage(why),
    };
    let fences = match args.fences(&options) {
        Ok(fences) => fences,
        Err(why) => return outcome::fail(why),
    };
    match serve(options, || args.confinement.enter(fences)) {
        Ok(()) => exit::SUCCESS,
        Err(why) => outcome::fail(why),
    }
}

/// Serves until a signal comes. `confine` takes rights when all sockets listen, and before there is another thread.
fn serve(options: Options, confine: impl FnOnce() -> Result<(), String>) -> Result<(), service::Error> {
    let (end, ending) = service::ending();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    service::run(options, ending, |addresses| {
        confine().map_err(std::io::Error::other)?;
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            if signals.forever().next().is_some() {
                end.now();
            }
        })?;
        for address in addresses {
            errln!("junctor: the API listens at {address}");
        }
        if let Some(notifier) = planes::notify::Notifier::from_environment() {
            notifier.send("READY=1");
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_understood() {
        assert!(matches!(listen_at("unix:/x"), Ok(At::Unix(_))));
        assert!(matches!(listen_at("[::1]:5"), Ok(At::Tcp(_))));
        assert!(["unix:", "localhost:5", "5", "1.2.3.4"].iter().all(|text| listen_at(text).is_err()));
        assert_eq!(named("edge=/run/x.sock"), Ok(("edge".into(), "/run/x.sock".into())));
        assert_eq!(saved("edge=/a,/b,/c").unwrap().directories, Some(["/a", "/b", "/c"].map(PathBuf::from)));
        assert!(
            ["edge=/a,/b", "=/a,/b,/c", "edge=a,/b,/c", "-e=/a,/b,/c"]
                .iter()
                .all(|text| saved(text).is_err())
        );
        assert!(["=x", "a=", "a/b=c", "a"].iter().all(|text| named(text).is_err()));
        assert_eq!(holder("alice:admin"), Ok(("alice".into(), Role::Admin)));
        assert!(["alice", "alice:king", ":admin", "a b:admin"].iter().all(|text| holder(text).is_err()));
    }
}

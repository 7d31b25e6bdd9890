// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor control`: the control plane as a process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use confine::privileges::Capability;
use control::daemons::Sockets;
use control::model::Source;
use control::{Rib, fpm};
use controller::{Keys, Settings, Socket};

use crate::confinement::directory;
use crate::{confinement, exit, outcome};

/// The name by which zebra's default address stands on the command line.
const DEFAULT: &str = "127.0.0.1:2620";

/// Learn routes from routing daemons, and keep a router's tables up to date.
///
/// The control plane takes routes of FRR (FPM) and of the kernel, where any daemon may have put them. It selects those that count and sends them to a router by a channel that a RouteFeed
/// element of the router names. It may end and come again: the router forwards meanwhile, and only differences are changed.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor control routes                                   in a deployment, by its channel 'routes'
  junctor control routes --icc /run/r.icc --netns ctl      for 'junctor run --icc /run/r.icc router.click'
  junctor control routes --fpm 127.0.0.1:2621 --graceful 5m
  junctor control routes --vrf red=1001                    routes of table 1001 are those of the router's VRF red
  junctor control routes --xfrm /run/junctor/xfrm --calls steer   strongSwan keys the router's IPsecDatabase 'ipsec'

FRR needs 'zebra -M dplane_fpm_nl' and, for another address than 127.0.0.1:2620, 'fpm address' in its configuration.")]
pub(crate) struct Args {
    /// The channel of routes (kind = \"routes\") that leads to the router.
    channel: String,
    /// The socket of the router's domain, if not that of the deployment that started this program.
    #[arg(long, value_name = "SOCKET")]
    icc: Option<PathBuf>,
    /// The network namespace of the daemons and of the router's twins: a name of 'ip netns', or a path.
    #[arg(long, value_name = "NAME")]
    netns: Option<PathBuf>,
    /// Where FRR's zebra connects to, or none.
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = DEFAULT)]
    fpm: String,
    /// Where FRR's daemons have their sockets for vtysh, or none. The routes of a daemon that ends stay for the time of --graceful.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/frr")]
    vty_socket: String,
    /// Where BIRD has its socket for birdc, or none. What a BIRD removes shortly after its return stays for the time of --graceful.
    #[arg(long, value_name = "PATH", default_value = "/run/bird/bird.ctl")]
    bird_socket: String,
    /// Do not take routes from the kernel of the namespace, but interfaces only.
    #[arg(long)]
    no_kernel_routes: bool,
    /// How long the routes of a daemon that has gone stay, if it does not return.
    #[arg(long, value_name = "TIME", default_value = "120s")]
    graceful: String,
    /// A VRF of the router and the table of Linux that has its routes, as red=1001; may be repeated. The routes of other tables than these and
    /// the main one are left out.
    #[arg(long, value_name = "NAME=TABLE")]
    vrf: Vec<String>,
    /// The socket for 'junctor routes', or none; by default it is found by itself.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    ipsec: KeyDaemons,
    #[command(flatten)]
    confinement: confinement::Options,
}

/// What a key daemon is given.
#[derive(Clone, Debug, clap::Args)]
struct KeyDaemons {
    /// Let key daemons believe that this process is Linux' IPsec: the Unix socket for libjunctor_xfrm.so, which is loaded into them.
    #[arg(long, value_name = "SOCKET", requires = "calls")]
    xfrm: Option<PathBuf>,
    /// With --xfrm: how the router's handlers are called: a channel (kind = "calls"), or the path of a control socket.
    #[arg(long, value_name = "CHANNEL|PATH", requires = "xfrm")]
    calls: Option<String>,
    /// With --xfrm: the router's element IPsecDatabase.
    #[arg(long, value_name = "ELEMENT", default_value = "ipsec", requires = "xfrm")]
    database: String,
}

impl KeyDaemons {
    fn keys(&self) -> Option<Keys> {
        let (socket, calls) = (self.xfrm.clone()?, self.calls.clone()?);
        Some(Keys { socket, calls, database: self.database.clone() })
    }
}

/// What the options say.
fn settings(args: &Args) -> Result<Settings, String> {
    let domain = client::channel::socket(args.icc.as_deref());
    let domain = domain.ok_or(
        "there is no domain of channels: name its socket by --icc, or let 'junctor up' start this program",
    )?;
    let mut rib = Rib::default();
    let grace = engine::parse_duration(&args.graceful);
    rib.set_grace(
        grace.ok_or_else(|| format!("--graceful expects a time such as 120s, not '{}'", args.graceful))?,
    );
    for text in &args.vrf {
        let read = text.split_once('=').and_then(|(name, table)| Some((name, table.parse().ok()?)));
        let (name, table) =
            read.ok_or_else(|| format!("--vrf expects NAME=TABLE, as red=1001, not '{text}'"))?;
        rib.add_vrf(name, table).map_err(|why| format!("--vrf {text}: {why}"))?;
    }
    rib.set_kernel_routes(!args.no_kernel_routes);
    rib.expect(Source::Kernel);
    let fpm =
        match args.fpm.as_str() {
            "none" => None,
            text => Some(read_address(text).ok_or_else(|| {
                format!("--fpm expects an address such as {DEFAULT}, or none, not '{text}'")
            })?),
        };
    if fpm.is_some() {
        rib.expect(Source::Fpm);
    }
    let named = |text: &str| (text != "none").then(|| PathBuf::from(text));
    Ok(Settings {
        domain,
        channel: args.channel.clone(),
        namespace: args.netns.clone(),
        fpm,
        daemons: Sockets { frr: fpm.and_then(|_| named(&args.vty_socket)), bird: named(&args.bird_socket) },
        rib,
        socket: match &args.socket {
            None => Socket::Usual,
            Some(path) if path == Path::new("none") => Socket::None,
            Some(path) => Socket::At(path.clone()),
        },
        keys: args.ipsec.keys(),
        opened: if args.confinement.is_on() { drop_capabilities } else { || () },
    })
}

fn drop_capabilities() {
    if let Err(why) = confine::drop_capabilities() {
        errln!("junctor: warning: a thread keeps its capabilities: {why}");
    }
}

/// What the control plane needs: at first another namespace and large buffers, and all the time the sockets of daemons of other users. Programs it starts
/// none.
fn fences(settings: &Settings) -> confinement::Needs {
    let mut keep = vec![Capability::NetAdmin];
    keep.extend(settings.namespace.is_some().then_some(Capability::SysAdmin));
    let daemons = &settings.daemons;
    let has_daemons = daemons.frr.is_some() || daemons.bird.is_some();
    keep.extend(has_daemons.then_some(Capability::DacOverride));
    let namespace = settings.namespace.iter().filter(|path| path.components().count() > 1);
    let read = daemons.frr.iter().cloned().chain(daemons.bird.iter().map(|path| directory(path)));
    let own = match &settings.socket {
        Socket::At(path) => Some(directory(path)),
        Socket::Usual => client::control_planes(),
        Socket::None => None,
    };
    let keys = settings.keys.iter().map(|keys| directory(&keys.socket));
    let write: Vec<PathBuf> = own.into_iter().chain(keys).collect();
    // A directory must be there to be within reach. What it cannot be, who listens in it finds out and says.
    for directory in &write {
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    }
    confinement::Needs {
        keep,
        read: read.chain(namespace.cloned()).collect(),
        write,
        ..confinement::Needs::default()
    }
}

fn read_address(text: &str) -> Option<SocketAddr> {
    let alone = |text: &str| Some(SocketAddr::new(text.parse().ok()?, fpm::PORT));
    let port = |text: &str| Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), text.parse().ok()?));
    text.parse().ok().or_else(|| alone(text)).or_else(|| port(text))
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let settings = match settings(args) {
        Ok(settings) => settings,
        Err(why) => return outcome::usage(why),
    };
    if let Err(why) = args.confinement.enter(fences(&settings)) {
        return outcome::fail(why);
    }
    controller::run(settings).map_or_else(outcome::fail, |()| exit::SUCCESS)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The devices under test, where their planes run, and how they are started: as deployments, by `junctor up`.

use std::fmt::Write as _;

use planes::Cpus;

use super::super::deployment::{self, Deployment};
use super::client::Client;
use super::network::{MTU, Network, PORT, server};
use super::{Asked, Cores};
use crate::Error;

/// Bytes that the kernel keeps for a socket of the passthrough.
const BUFFER: usize = 4 << 20;

/// The longest payload that passes a guest.
const GUEST_PAYLOAD: usize = 1472;

/// What forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// The kernel routes.
    Kernel,
    /// A guest's kernel routes: the device is an operating system of its own.
    Guest,
    /// A user plane receives a payload, processes it and sends it.
    Passthrough,
}

/// Where planes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// All share all cores.
    Smp,
    /// Each has its own, as a process.
    Process,
    /// The same, and the management plane has an operating system of its own.
    Guest,
}

/// A device in a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) device: Device,
    pub(super) placement: Placement,
}

impl Device {
    pub(super) const ALL: [Device; 3] = [Device::Kernel, Device::Guest, Device::Passthrough];

    pub(super) fn key(self) -> &'static str {
        match self {
            Device::Kernel => "kernel",
            Device::Guest => "guest",
            Device::Passthrough => "passthrough",
        }
    }

    /// As it is named in rows.
    pub(super) fn short(self) -> &'static str {
        match self {
            Device::Kernel => "kernel",
            Device::Guest => "guest's kernel",
            Device::Passthrough => "passthrough",
        }
    }

    /// What runs on its cores.
    fn plane(self) -> &'static str {
        match self {
            Device::Kernel => "routing",
            Device::Guest => "guest",
            Device::Passthrough => "user",
        }
    }

    pub(super) fn in_words(self) -> &'static str {
        match self {
            Device::Kernel => "kernel routing",
            Device::Guest => "kernel routing in a guest",
            Device::Passthrough => "user passthrough",
        }
    }

    /// Whether it takes payloads of so many bytes: the interfaces of a guest take frames of the usual length.
    pub(super) fn takes(self, payload: usize) -> bool {
        self != Device::Guest || payload <= GUEST_PAYLOAD
    }

    /// How many ports of the device itself the tester sends to.
    pub(super) fn listeners(self) -> u16 {
        match self {
            Device::Kernel | Device::Guest => 0,
            Device::Passthrough => 1,
        }
    }
}

impl Placement {
    pub(super) const ALL: [Placement; 3] = [Placement::Smp, Placement::Process, Placement::Guest];

    pub(super) fn key(self) -> &'static str {
        match self {
            Placement::Smp => "smp",
            Placement::Process => "amp",
            Placement::Guest => "amp_guest",
        }
    }

    pub(super) fn in_words(self) -> &'static str {
        match self {
            Placement::Smp => "SMP",
            Placement::Process => "AMP",
            Placement::Guest => "AMP, guest",
        }
    }

    /// Why this machine cannot have it, if so.
    pub(super) fn lacks(self, cores: &Cores) -> Option<String> {
        match self {
            Placement::Smp => None,
            _ if cores.user == cores.management => Some("1 core here".to_owned()),
            Placement::Process => None,
            Placement::Guest => no_guests(),
        }
    }
}

/// Why there are no guests here, if so.
pub(super) fn no_guests() -> Option<String> {
    let lacks =
        |program: &str| planes::deployment::find_program(program, std::path::Path::new("/")).is_none();
    let missing = [(planes::guest::KERNEL, "user-mode-linux"), ("setpriv", "util-linux")];
    let (program, package) = missing.into_iter().find(|(program, _)| lacks(program))?;
    Some(format!("{program} is not installed (apt-get install {package})"))
}

impl Subject {
    /// All, device by device. One guest is enough for one device.
    pub(super) fn all() -> impl Iterator<Item = Subject> {
        let of = |device| Placement::ALL.map(|placement| Subject { device, placement });
        let two =
            |subject: &Subject| (subject.device, subject.placement) == (Device::Guest, Placement::Guest);
        Device::ALL.into_iter().flat_map(of).filter(move |subject| !two(subject))
    }

    /// Why this machine cannot have it, if so.
    pub(super) fn lacks(self, cores: &Cores) -> Option<String> {
        let guest = || (self.device == Device::Guest).then(no_guests).flatten();
        self.placement.lacks(cores).or_else(guest)
    }

    /// Whether it is left out of quick runs: one guest is started there.
    pub(super) fn is_slow(self) -> bool {
        self.device == Device::Guest || self.device == Device::Kernel && self.placement == Placement::Guest
    }

    /// As results are named.
    pub(super) fn key(self) -> String {
        format!("{}.{}", self.device.key(), self.placement.key())
    }

    pub(super) fn in_words(self) -> String {
        format!("{}, {}", self.device.in_words(), self.placement.in_words())
    }

    /// As it is named in rows.
    pub(super) fn short(self) -> String {
        format!("{}, {}", self.device.short(), self.placement.in_words())
    }

    /// Who runs on which core.
    pub(super) fn sharing(self, cores: &Cores) -> String {
        cores.sharing(self.device.plane(), self.placement == Placement::Smp)
    }

    /// Starts it, and waits until its management plane answers.
    pub(super) fn start(self, network: &Network, cores: &Cores) -> Result<Deployment, Error> {
        network.forward(self.device == Device::Kernel)?;
        network.receive_on(if self.placement == Placement::Smp { &cores.all } else { &cores.user })?;
        let mut plan = Plan::new(self.placement, cores)?;
        match self.device {
            Device::Kernel => {}
            Device::Guest => plan.guest(network, &cores.user)?,
            Device::Passthrough => plan.user("user", passthrough(0), &cores.user, ""),
        }
        plan.management(None)?;
        let deployment = plan.start(network)?;
        network.address(self.device)?;
        Ok(deployment)
    }
}

/// The channel by which the control plane calls the user plane's handlers.
const CHANNEL: &str = "steer";

/// A deployment that is being written.
pub(super) struct Plan {
    placement: Placement,
    text: String,
    beside: Vec<(String, String)>,
    management: Cpus,
    all: Vec<usize>,
}

impl Plan {
    pub(super) fn new(placement: Placement, cores: &Cores) -> Result<Plan, Error> {
        let list = |cores: &[usize]| cores.iter().copied().collect::<Cpus>();
        let text = match placement {
            Placement::Smp => format!("placement = \"smp\"\ncores = \"{}\"\n", list(&cores.shared).to_list()),
            _ => "placement = \"amp\"\n".to_owned(),
        };
        let management = list(&cores.management);
        Ok(Plan { placement, text, beside: Vec::new(), management, all: cores.all.clone() })
    }

    fn cores(&self, cores: &Cpus) -> String {
        match self.placement {
            Placement::Smp => String::new(),
            _ => format!("cores = \"{}\"\n", cores.to_list()),
        }
    }

    /// Adds a user plane with this configuration on these cores.
    pub(super) fn user(&mut self, name: &str, configuration: String, cores: &[usize], more: &str) {
        let cores = self.cores(&cores.iter().copied().collect());
        let file = format!("{name}.click");
        let _ = write!(self.text, "[planes.{name}]\nkind = \"user\"\nconfig = \"{file}\"\n{cores}{more}");
        self.beside.push((file, configuration));
    }

    /// Adds a guest whose kernel routes between two interfaces.
    fn guest(&mut self, network: &Network, cores: &[usize]) -> Result<(), Error> {
        let cores = self.cores(&cores.iter().copied().collect());
        let more = "interfaces = [\"c1\", \"c2\"]\nmemory = \"192M\"\n";
        let _ = write!(
            self.text,
            "[planes.user]\nkind = \"user\"\npartition = \"uml\"\ncommand = \"sh router.sh\"\n{cores}{more}"
        );
        self.beside.push(("router.sh".to_owned(), network.guest_router()?));
        Ok(())
    }

    /// Adds the management plane. `controls`: the user plane that it changes.
    pub(super) fn management(&mut self, controls: Option<&str>) -> Result<(), Error> {
        let in_guest = self.placement == Placement::Guest;
        let cores = self.cores(&self.management);
        let program = deployment::program()?;
        let mut line = format!("exec '{}' lab manager --listen {}", program.display(), server(in_guest));
        if let Some(user) = controls {
            // In a guest the relay puts a socket there.
            let way = if in_guest {
                format!("--control /run/junctor/{user}.sock")
            } else {
                let _ = write!(self.text, "[channels.{CHANNEL}]\nkind = \"calls\"\nplane = \"{user}\"\n");
                format!("--channel {CHANNEL}")
            };
            let _ = write!(line, " {way} --configuration {user}.click");
        }
        let mut script = String::new();
        let mut more = String::new();
        if in_guest {
            script += "set -e\nip addr add 10.0.4.2/24 dev c0\nip link set c0 up\nip route add default via 10.0.4.1\n";
            more += "partition = \"uml\"\ninterfaces = [\"c0\"]\nmemory = \"192M\"\n";
        }
        if let Some(user) = controls {
            let _ = writeln!(more, "after = [\"{user}\"]");
            if in_guest {
                let _ = writeln!(more, "reaches = [\"{user}\"]");
            }
        }
        script += &line;
        let kind = if controls.is_some() { "control" } else { "management" };
        let _ = write!(
            self.text,
            "[planes.manager]\nkind = \"{kind}\"\ncommand = \"sh manager.sh\"\n{cores}{more}"
        );
        self.beside.push(("manager.sh".to_owned(), script));
        Ok(())
    }

    /// Starts it.
    pub(super) fn start(self, network: &Network) -> Result<Deployment, Error> {
        let beside: Vec<(&str, &str)> =
            self.beside.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let deployment = Deployment::start(Some(&network.device), &self.text, &beside, &self.all)?;
        if self.placement == Placement::Guest {
            network.meet_guest()?;
        }
        Ok(deployment)
    }
}

/// Who asks the management plane of a subject.
pub(super) fn client<'a>(network: &'a Network, placement: Placement, asked: &Asked) -> Client<'a> {
    let server = server(placement == Placement::Guest);
    Client { home: &network.operator, server, timeout: asked.timeout }
}

/// The configuration of a passthrough, the `index`th of several: the study's receives a payload, processes it and sends it. Here
/// processing is a checksum over all of it, made and then checked. What the sink answers goes back to the generator.
pub(super) fn passthrough(index: u16) -> String {
    let (port, longest) = (PORT + index, MTU + 200);
    let sizes = format!("SNAPLEN {longest}, SNDBUF {BUFFER}, RCVBUF {BUFFER}, TIMESTAMP false");
    format!(
        "in :: Socket(UDP, 10.0.1.1, {port}, {sizes});\n\
         out :: Socket(UDP, 10.0.2.2, {port}, CLIENT true, {sizes});\n\
         in -> SetCRC32 -> CheckCRC32 -> out -> in;\n"
    )
}

/// The configuration of a user plane that routes frames between its interfaces, with routes that can be changed.
pub(super) fn router(network: &Network) -> Result<String, Error> {
    let mac = |home: &testbed::rig::Namespace, end| home.mac(end).map(wire::MacAddr);
    let (own, sink) = (mac(&network.device, "d1")?, mac(&network.sink, "b0")?);
    Ok(format!(
        "FromDevice(d0, METHOD AF_PACKET, PROMISC true)\n  \
         -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader\n  \
         -> rt :: StaticIPLookup(10.0.2.0/24 0, 0.0.0.0/0 1);\n\
         rt[0] -> DecIPTTL -> EtherEncap(0x0800, {own}, {sink}) -> Queue(4096) -> ToDevice(d1, METHOD AF_PACKET);\n\
         rt[1] -> Discard;\n"
    ))
}

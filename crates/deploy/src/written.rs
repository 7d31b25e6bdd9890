// SPDX-License-Identifier: MIT OR Apache-2.0
//! The deployment as a whole: its directory, its file, the router's configuration.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use conf::init::{self, Kernel};
use elements::compound::arguments::is_interface_name;
use elements::compound::nat::Source;
use elements::compound::router::Router;
use elements::compound::vrf::Vrf;

use crate::daemons::{self, Daemon, Protocols, Suite, twins};
use crate::{Error, dhcp, strongswan, vrrp};

/// The channel of routes.
const CHANNEL: &str = "routes";

/// A deployment that is to be written.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Interfaces with their addresses, as `eth0=10.0.0.1/24,2001:db8::1/64`, or `eth0=dhcp`.
    pub interfaces: Vec<String>,
    /// What the routing daemons speak.
    pub protocols: Protocols,
    /// Virtual routers, as `eth0=7:10.0.0.254`.
    pub vrrp: Vec<String>,
    /// Whether labelled packets are switched.
    pub mpls: bool,
    /// Whether packets are protected by IPsec, with keys of strongSwan.
    pub ipsec: bool,
    /// VRFs, as `red:77=eth1,eth2`.
    pub vrfs: Vec<String>,
    /// The file of statements by which addresses are translated.
    pub nat: Option<PathBuf>,
    /// The interfaces that lead outside, for address translation; those with DHCP where there is none.
    pub outside: Vec<String>,
    /// The directory to write, which must not exist.
    pub directory: PathBuf,
    /// The name of the deployment and of the namespace; that of the directory where there is none.
    pub name: Option<String>,
    /// Whether interfaces may share a subnet.
    pub force: bool,
}

/// A deployment that was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The file that `junctor up` takes.
    pub file: PathBuf,
    /// What is missing on this machine, or is not as it should be.
    pub warnings: Vec<String>,
}

/// A deployment that can be written: nothing of it is wrong.
pub struct Checked<'a> {
    wanted: &'a Wanted,
    name: String,
    router: Router,
}

/// A file of statements by its whole path: the router runs elsewhere.
fn statements(file: &Path) -> Result<Source, String> {
    let path = std::path::absolute(file).map_err(|why| format!("{}: {why}", file.display()))?;
    match path.exists() {
        true => Ok(Source::File(path.display().to_string())),
        false => Err(format!("{}: there is no such file of statements", file.display())),
    }
}

impl Wanted {
    /// Looks for what is wrong, before anything is written.
    ///
    /// # Errors
    /// [`Error::Wrong`] or [`Error::Directory`].
    pub fn check(&self) -> Result<Checked<'_>, Error> {
        let name = self.name().map_err(Error::Wrong)?;
        let protocols = &self.protocols;
        // BIRD watches its neighbours itself.
        let watches = protocols.bfd && protocols.suite == Suite::Frr;
        let bfd = if watches { vec!["true".to_owned()] } else { Vec::new() };
        let kernel = Kernel {
            answers: true,
            netns: Some(name.clone()),
            feed: Some(CHANNEL.into()),
            bfd,
            mpls: self.mpls,
            ipsec: self.ipsec,
            vrfs: self.vrfs.clone(),
            may_overlap: self.force,
            nat: self.nat.as_deref().map(statements).transpose().map_err(Error::Wrong)?,
            outside: self.outside.clone(),
            ..Kernel::default()
        };
        let router = init::described(&self.interfaces, &[], &[], kernel).map_err(Error::Wrong)?;
        vrrp::keepalived(&name, &self.vrrp, &self.interfaces, Path::new("")).map_err(Error::Wrong)?;
        if self.directory.to_string_lossy().contains(char::is_control) {
            return Err(Error::Directory(self.directory.clone()));
        }
        Ok(Checked { wanted: self, name, router })
    }

    fn name(&self) -> Result<String, String> {
        let of_directory = || self.directory.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = self.name.clone().or_else(of_directory).unwrap_or_default();
        match is_interface_name(&name) && name.len() <= 32 {
            true => Ok(name),
            false => Err(format!(
                "'{name}' cannot name a deployment; give it a name of letters and digits by --name"
            )),
        }
    }
}

impl Checked<'_> {
    /// Writes it.
    ///
    /// # Errors
    /// A file or directory cannot be made. What was written before stays.
    pub fn write(&self) -> Result<Written, Error> {
        let Checked { wanted, name, router } = self;
        let directory = &wanted.directory;
        make(directory)?;
        let whole = fs::canonicalize(directory).map_err(|why| Error::file(directory, why))?;
        put(&whole.join("router.click"), &init::router_text(router))?;
        let twins = twins(&wanted.interfaces).into_iter().enumerate();
        // The protocols speak in the main table.
        let twins: Vec<_> = twins.filter(|(i, _)| router.table_of(*i) == 0).map(|(_, twin)| twin).collect();
        let suite = wanted.protocols.suite;
        let (place, daemons) = match suite {
            Suite::Bird => {
                let place = whole.join("bird");
                let daemon = daemons::bird(&wanted.protocols, &twins, &place);
                (place, vec![daemon])
            }
            Suite::Frr => {
                let place = whole.join("frr");
                let daemons = daemons::frr(&wanted.protocols, &twins, &place);
                (place, daemons)
            }
        };
        let mut groups = vec![(place, daemons)];
        if !wanted.vrrp.is_empty() {
            let place = whole.join("keepalived");
            let daemon =
                vrrp::keepalived(name, &wanted.vrrp, &wanted.interfaces, &place).map_err(Error::Wrong)?;
            groups.push((place, vec![daemon]));
        }
        for (place, daemons) in &groups {
            make(place)?;
            for daemon in daemons {
                put(&place.join(format!("{}.conf", daemon.name)), &daemon.text)?;
            }
        }
        let mut warnings = Vec::new();
        if suite == Suite::Frr {
            warnings.extend(give_to_frr(&groups[0].0));
        }
        let place = whole.join("dhcp");
        let clients = dhcp::clients(router, &place, &mut warnings)?;
        groups.push((place, clients));
        if wanted.ipsec {
            let place = whole.join("strongswan");
            let daemon = strongswan::daemon(&twins, &place, &mut warnings)?;
            groups.push((place, vec![daemon]));
        }
        put(&whole.join("deployment.toml"), &deployment(name, suite, &groups, &router.vrfs))?;
        Ok(Written { file: directory.join("deployment.toml"), warnings })
    }
}

fn make(directory: &Path) -> Result<(), Error> {
    fs::create_dir(directory).map_err(|why| Error::file(directory, why))
}

fn put(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|why| Error::file(path, why))
}

/// FRR's daemons give up root, and write their sockets here. Returns a warning if they cannot.
fn give_to_frr(directory: &Path) -> Option<String> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some("frr")).then(|| fields.nth(1)?.parse::<u32>().ok())?
    });
    let given = user.map(|user| std::os::unix::fs::chown(directory, Some(user), None));
    match given {
        Some(Ok(())) => None,
        _ => {
            let open = fs::set_permissions(directory, fs::Permissions::from_mode(0o777));
            let who = if open.is_ok() { "everybody may write there now" } else { "make it theirs" };
            Some(format!(
                "{}: cannot be given to the user frr, as which the daemons run; {who}",
                directory.display()
            ))
        }
    }
}

/// A string of TOML: that of JSON means the same there.
fn quoted(text: impl std::fmt::Display) -> String {
    serde_json::Value::from(text.to_string()).to_string()
}

fn deployment(name: &str, suite: Suite, groups: &[(PathBuf, Vec<Daemon>)], vrfs: &[Vrf]) -> String {
    let of_vrf = |vrf: &Vrf| format!(", \"--vrf\", \"{}={}\"", vrf.name, vrf.table);
    let vrfs: String = vrfs.iter().map(of_vrf).collect();
    let (whose, fpm) = match groups.first() {
        Some((at, _)) if suite == Suite::Frr => {
            ("FRR", format!(", \"--vty-socket\", {}", quoted(at.display())))
        }
        found => {
            let socket = |(at, _): &(PathBuf, _)| quoted(at.join("bird.ctl").display());
            let socket =
                found.map_or_else(String::new, |bird| format!(", \"--bird-socket\", {}", socket(bird)));
            ("BIRD", format!(", \"--fpm\", \"none\"{socket}"))
        }
    };
    let keys =
        groups.iter().find(|(_, daemons)| daemons.iter().any(|daemon| daemon.name == strongswan::PLANE));
    let keys = keys.map_or_else(String::new, |(at, _)| {
        format!(", \"--xfrm\", {}, \"--calls\", \"{}\"", quoted(strongswan::socket(at)), strongswan::CHANNEL)
    });
    let mut text = format!(
        "# A router whose routes come from {whose}. Run it with: junctor up FILE\n\
         name = \"{name}\"\n\
         \n\
         # Forwards packets.\n\
         [planes.user]\n\
         kind = \"user\"\n\
         config = \"router.click\"\n\
         \n\
         # Brings routes of the daemons and of the kernel into the user plane's tables.\n\
         [planes.routes]\n\
         kind = \"control\"\n\
         command = [\"junctor\", \"control\", \"{CHANNEL}\", \"--netns\", \"{name}\"{fpm}{vrfs}{keys}]\n\
         after = [\"user\"]\n\
         \n\
         [channels.{CHANNEL}]\n\
         kind = \"routes\"\n\
         \n"
    );
    for (at, daemons) in groups {
        let at = at.display();
        for Daemon { name: daemon, command, after, .. } in daemons {
            text += &match daemon.as_str() {
                "zebra" => format!(
                    "# FRR, next to the twins of the interfaces. 'vtysh --vty_socket {at}' is its command line.\n"
                ),
                "bird" => format!(
                    "# BIRD, next to the twins of the interfaces. 'birdc -s {at}/bird.ctl' is its command line.\n"
                ),
                "keepalived" => "# The virtual routers (VRRP).\n".to_owned(),
                name if name.starts_with("dhcp") => {
                    format!(
                        "# Asks for the address of a twin by DHCP. '{at}/lease' says what it does with it.\n"
                    )
                }
                "bfdd" => format!(
                    "# The router runs the sessions of bfdd.\n\
                     [channels.bfd]\n\
                     kind = \"calls\"\n\
                     plane = \"user\"\n\
                     \n\
                     [planes.bfd]\n\
                     kind = \"control\"\n\
                     netns = \"{name}\"\n\
                     command = [\"junctor\", \"bfd\", \"--dataplane\", {}, \"--channel\", \"bfd\"]\n\
                     after = [\"user\"]\n\n",
                    quoted(format!("{at}/bfd.sock"))
                ),
                strongswan::PLANE => format!(
                    "# strongSwan's key daemon. Its tunnels are those of {at}/swanctl.conf.\n\
                     # 'swanctl --list-sas --uri unix://{at}/vici' shows them.\n\
                     [channels.{channel}]\n\
                     kind = \"calls\"\n\
                     plane = \"user\"\n\n",
                    channel = strongswan::CHANNEL
                ),
                _ => String::new(),
            };
            let words: Vec<String> = command.iter().map(quoted).collect();
            // A zebra that is started again gets their routes only when they are, too.
            let bound = match daemon.as_str() {
                _ if *after == "zebra" => "bound_to = [\"zebra\"]\n",
                // Another router has none of its associations.
                strongswan::PLANE => "bound_to = [\"user\"]\n",
                _ => "",
            };
            // A daemon that finds no zebra tries again after 10 s. What bgpd asks of bfdd before that is lost.
            let ready = match daemon.as_str() {
                "zebra" => format!("ready = {}\n", quoted(format!("unix:{at}/zserv"))),
                strongswan::PLANE => "ready = \"notified\"\n".to_owned(),
                _ => String::new(),
            };
            let _ = write!(
                text,
                "[planes.{daemon}]\n\
                 kind = \"control\"\n\
                 netns = \"{name}\"\n\
                 command = [{}]\n\
                 after = [\"{after}\"]\n{bound}{ready}\n",
                words.join(", ")
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(directory: &Path, protocols: Protocols) -> Wanted {
        Wanted {
            interfaces: ["none0=10.0.1.1/24,2001:db8::1/64", "none1=10.0.2.1/24"].map(String::from).to_vec(),
            protocols,
            vrrp: Vec::new(),
            mpls: false,
            ipsec: false,
            vrfs: vec!["red:77=none1".into()],
            nat: None,
            outside: Vec::new(),
            directory: directory.to_owned(),
            name: None,
            force: false,
        }
    }

    fn write(wanted: &Wanted) -> Result<Written, Error> {
        wanted.check()?.write()
    }

    fn is_wrong(wanted: &Wanted) -> bool {
        matches!(write(wanted), Err(Error::Wrong(_)))
    }

    /// The text of the deployment, which is one.
    fn written(wanted: &Wanted) -> String {
        let file = write(wanted).unwrap().file;
        let text = fs::read_to_string(&file).unwrap();
        let found = planes::deployment::read(&file, &text);
        let errors: Vec<String> = found.diagnostics.iter().map(|why| why.message.clone()).collect();
        assert!(found.deployment.is_some(), "{errors:?}");
        text
    }

    #[test]
    fn what_is_written_is_a_deployment() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("r1");
        let protocols = Protocols { ospf: true, bgp: Some(65001), bfd: true, ..Protocols::default() };
        let asked = wanted(&directory, protocols);
        let text = written(&asked);
        assert!(matches!(write(&asked), Err(Error::File { .. })), "nothing is written over");
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        assert!(
            read("router.click")
                .contains("RouteFeed(routes, TABLE rt, TABLE6 rt6, LINK host0 1, LINK host1 2")
        );
        assert!(read("frr/ospfd.conf").ends_with("router ospf\n network 10.0.1.0/24 area 0\n"));
        assert!(read("router.click").contains("TWIN none1, NETNS r1, VRF red 77, VIRTUAL rt 0 table 1"));
        let place = fs::canonicalize(directory.join("frr")).unwrap();
        let expected =
            format!("\"--netns\", \"r1\", \"--vty-socket\", \"{}\", \"--vrf\", \"red=77\"]", place.display());
        assert!(text.contains(&expected), "{text}");
        for daemon in ["zebra", "ospfd", "bfdd", "bgpd", "bfd"] {
            assert!(text.contains(&format!("[planes.{daemon}]")), "{text}");
        }
        let nameless = Wanted { directory: "..".into(), ..asked };
        assert!(is_wrong(&nameless));
    }

    #[test]
    fn directories_have_the_names_that_they_have() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("a \"router\" \\ é");
        let protocols = Protocols { ospf: true, bfd: true, ..Protocols::default() };
        let mut asked = Wanted { name: Some("r1".into()), ..wanted(&directory, protocols) };
        let read: toml::Table = written(&asked).parse().unwrap();
        let command = read["planes"]["zebra"]["command"].as_array().unwrap();
        let whole = fs::canonicalize(&directory).unwrap();
        let words: Vec<&str> = command.iter().filter_map(toml::Value::as_str).collect();
        assert!(words.contains(&&*whole.join("frr/zebra.conf").to_string_lossy()), "{words:?}");
        asked.directory = place.path().join("r\n1");
        assert!(matches!(write(&asked), Err(Error::Directory(_))));
    }

    #[test]
    fn a_client_is_written_for_an_interface_without_an_address() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("r3");
        let mut asked = wanted(&directory, Protocols::default());
        asked.vrfs.clear();
        asked.interfaces[0] = "none0=dhcp,10.0.1.1/24".into();
        assert!(is_wrong(&asked), "it has one IPv4 address, which is not known");
        asked.interfaces[0] = "none0=dhcp,2001:db8::1/64".into();
        let text = written(&asked);
        assert!(text.contains("[planes.dhcp0]") && !text.contains("dhcp1"), "{text}");
        let router = fs::read_to_string(directory.join("router.click")).unwrap();
        for part in [
            "arp0 :: ARPQuerier(0.0.0.0, none0, UNSOLICITED update, ADDRESSES twin0);",
            "CheckIPHeader(INTERFACES 10.0.2.1/24, ADDRESSES twin0 twin1)",
            "NETWORKS rt 1",
        ] {
            assert!(router.contains(part), "{part}: {router}");
        }
        let mode = fs::metadata(directory.join("dhcp/lease")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111);
    }

    #[test]
    fn charon_has_the_control_plane_as_its_kernel() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("r4");
        let mut asked = wanted(&directory, Protocols::default());
        asked.ipsec = true;
        assert!(is_wrong(&asked), "policies do not know VRFs");
        asked.vrfs.clear();
        let read: toml::Table = written(&asked).parse().unwrap();
        let words = |plane: &str| {
            let all = read["planes"][plane]["command"].as_array().unwrap().iter();
            all.filter_map(toml::Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let socket = fs::canonicalize(&directory).unwrap().join("strongswan/xfrm").display().to_string();
        assert!(words("routes").ends_with(&[
            "--xfrm".into(),
            socket.clone(),
            "--calls".into(),
            "keys".into()
        ]));
        assert!(words("charon").starts_with(&["junctor".into(), "charon".into(), "--xfrm".into(), socket]));
        assert!(
            fs::read_to_string(directory.join("router.click")).unwrap().contains("ipsec :: IPsecDatabase")
        );
    }

    #[test]
    fn bird_and_keepalived_are_written_too() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("r2");
        let protocols = Protocols { ospf: true, suite: Suite::Bird, ..Protocols::default() };
        let mut asked = wanted(&directory, protocols);
        for wrong in ["none0=0:10.0.1.9", "eth9=7:10.0.1.9", "none0=7", "none0=7:x"] {
            asked.vrrp = vec![wrong.into()];
            assert!(is_wrong(&asked), "{wrong}");
        }
        asked.vrrp = vec!["none0=7:10.0.1.254,fe80::7,2001:db8::254".into()];
        let text = written(&asked);
        for part in ["\"--fpm\", \"none\", \"--bird-socket\", ", "[planes.bird]", "[planes.keepalived]"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("zebra"), "{text}");
        let conf = fs::read_to_string(directory.join("keepalived/keepalived.conf")).unwrap();
        for part in
            ["use_vmac v4-0-7", "{\n        10.0.1.254\n    }", "{\n        fe80::7\n        2001:db8::254\n"]
        {
            assert!(conf.contains(part), "{part}: {conf}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A written deployment with strongSwan: its charon and a peer's make a tunnel, and packets go through it. The peer has ESP of its own (libipsec).

use std::collections::BTreeSet;

use testbed::rig::skip_without;
use testbed::strongswan::{self, Strongswan};

use crate::site::Site;
use crate::stream::Stream;

/// A host behind the peer.
const BEHIND: &str = "10.9.0.1";
pub const SECRETS: &str = "secrets {\n ike-site {\n secret = \"a long secret\"\n }\n}\n";

/// The example of the written file as the user changes it; and a new charon is not to have old tunnels ended.
fn filled_in(text: &str) -> String {
    let (before, example) = text.split_once("    # site {\n").unwrap();
    let (example, after) = example.split_once("\n\n").unwrap();
    let example = format!("site {{\n{example}").replace("# ", "").replace("10.0.1.1", "10.0.2.1");
    let example = example.replace("203.0.113.2", "10.0.2.2").replace("10.0.2.0/24", "10.0.1.0/24");
    let example =
        example.replace("10.2.0.0/16", "10.9.0.0/16").replace("version = 2", "version = 2\nunique = never");
    format!("{before}{example}\n\n{after}{SECRETS}")
}

/// The peer's side of the example.
const PEER: &str = "connections {
 site {
  version = 2
  local_addrs = 10.0.2.2
  remote_addrs = 10.0.2.1
  local {
   auth = psk
   id = two.example.org
  }
  remote {
   auth = psk
   id = one.example.org
  }
  children {
   net {
    local_ts = 10.9.0.0/16
    remote_ts = 10.0.1.0/24
    esp_proposals = aes256gcm16-x25519
   }
  }
 }
}
";

/// Numbers of the associations in a list, the router's or Linux'.
pub fn spis_in(list: &str) -> BTreeSet<String> {
    let words: Vec<&str> = list.split_whitespace().collect();
    words.windows(2).filter(|pair| pair[0] == "spi").map(|pair| pair[1].to_owned()).collect()
}

/// Numbers of the router's associations.
pub fn spis(site: &Site) -> BTreeSet<String> {
    spis_in(&site.ctl("ipsec.sas").unwrap_or_default())
}

/// The process of the router's charon.
fn pid(site: &Site) -> String {
    let record = std::fs::read_to_string(format!("/run/junctor/{}/charon.pid", site.control.name()));
    record.unwrap_or_default().split(' ').next().unwrap_or_default().to_owned()
}

/// What the router's charon says.
pub fn log(site: &Site) -> String {
    std::fs::read_to_string(format!("/run/junctor/{}/charon.log", site.control.name())).unwrap_or_default()
}

/// Whether a deployment's charon cannot start here; if so, says why.
pub fn skip(name: &str) -> bool {
    // Asked for its version, it would begin.
    let is_here = std::path::Path::new("/usr/sbin/charon-systemd").exists();
    if !is_here {
        println!("{name}: skipped: charon-systemd is not installed");
    }
    !is_here
}

/// Whether a peer can have ESP of its own here; if not, says why.
pub fn has_own_esp(name: &str) -> bool {
    let has = strongswan::program().is_some() && strongswan::has_own_esp();
    if !has {
        println!("{name}: skipped: charon or its plugin kernel-libipsec is not installed");
    }
    has
}

#[test]
fn charon_of_a_written_deployment_makes_a_tunnel_and_may_be_killed() {
    const NAME: &str = "charon_of_a_written_deployment_makes_a_tunnel_and_may_be_killed";
    if skip(NAME) || !has_own_esp(NAME) {
        return;
    }
    if skip_without(NAME, &["swanctl", "ping"]) {
        return;
    }
    let mut site = Site::bare(1500);
    site.rig.b.ip(&format!("addr add {BEHIND}/32 dev lo")).unwrap();
    let mut peer = Strongswan::with_own_esp("").unwrap();
    peer.start(&site.rig.b).unwrap();
    peer.load(&site.rig.b, &format!("{PEER}{SECRETS}")).unwrap();
    site.deploy(&["--ipsec"], |file, text| match file {
        "strongswan/swanctl.conf" => filled_in(&text),
        _ => text,
    });
    site.control.ip("route add 10.9.0.0/16 via 10.0.2.2").unwrap();
    site.wait("answers through the tunnel", || {
        site.rig.a.run(&["ping", "-n", "-c1", "-W1", BEHIND]).is_ok() && spis(&site).len() == 2
    });
    let first = spis(&site);
    assert_eq!(first.len(), 2, "{:?}", site.ctl("ipsec.sas"));

    // Another charon does not start yet. The tunnel goes on.
    let settings = site.path("deployment/strongswan/strongswan.conf");
    let aside = format!("{settings}.aside");
    std::fs::rename(&settings, &aside).unwrap();
    site.rig.dut.run(&["kill", "-9", &pid(&site)]).unwrap();
    site.wait("a failed start", || log(&site).contains("strongswan.conf: No such file or directory"));
    let said = site.rig.a.run(&["ping", "-n", "-c", "100", "-i", "0.01", BEHIND]).unwrap();
    assert!(said.contains(" 0% packet loss"), "{said}");
    assert_eq!(spis(&site), first);

    // Another one makes associations of its own. Old ones carry all that goes to the peer, until it has new ones. The peer uses new ones as soon as it has them: what comes before its
    // answer is known here is lost.
    let (dropped, stream) = (site.drops("no-sa"), Stream::start(&site.rig.a, &site.rig.b, BEHIND));
    std::fs::rename(&aside, &settings).unwrap();
    site.wait("its associations", || spis(&site).difference(&first).count() == 2);
    stream.goes_on(1000);
    let account = stream.end();
    let [there, back] = &account.lost;
    eprintln!("a new charon: of {} packets {} were lost on the way back", account.sent, back.len());
    assert!(there.is_empty() && account.doubled.iter().all(Vec::is_empty), "{account:?}");
    assert_eq!(site.drops("no-sa") - dropped, back.len() as u64);
    assert!(back.windows(2).all(|pair| pair[1] == pair[0] + 1), "there is one gap: {back:?}");
    site.undeploy();
}

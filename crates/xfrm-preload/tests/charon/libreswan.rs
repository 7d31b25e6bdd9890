// SPDX-License-Identifier: MIT OR Apache-2.0
//! Libreswan's pluto keys Junctor's databases, too, and charon those of its peer.

use std::path::Path;

use ipsec::Direction::{Forward, In, Out};
use testbed::process::Process;

use crate::bench::library;
use crate::pair::{Host, PATIENCE, PLAIN, Pair, Way, skip};

/// Where Debian has the programs.
const PLUTO: &str = "/usr/libexec/ipsec/pluto";
const WHACK: &str = "/usr/libexec/ipsec/whack";
/// The connection of [`Host::connect`], seen from the other side. No script is to set routes.
const CONNECTION: &str = "--name net --ikev2-allow --psk --encrypt --tunnel --ike aes128-sha2_256-dh31 \
                          --esp aes_gcm256 --no-esn --host 192.0.2.1 --id @host1 --client 10.1.0.0/16 --updown /bin/true \
                          --to --host 192.0.2.2 --id @host2 --client 10.2.0.0/16 --updown /bin/true";

/// One daemon. It ends with this.
struct Pluto {
    directory: tempfile::TempDir,
    daemon: Process,
}

impl Pluto {
    /// Starts one in the place of a host's charon.
    fn start(host: &Host) -> Pluto {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        std::fs::create_dir(at("nss")).unwrap();
        let database = format!("sql:{}", at("nss"));
        host.namespace.run(&["certutil", "-N", "-d", &database, "--empty-password"]).unwrap();
        std::fs::write(at("ipsec.conf"), "config setup\n    dnssec-enable=no\n").unwrap();
        std::fs::write(at("ipsec.secrets"), "@host1 @host2 : PSK \"a long secret\"\n").unwrap();
        let environment = [
            format!("LD_PRELOAD={}", library().display()),
            format!("JUNCTOR_XFRM={}", host.bench.path().display()),
        ];
        let here = directory.path().display().to_string();
        let (config, secrets, nss) = (at("ipsec.conf"), at("ipsec.secrets"), at("nss"));
        let command = [
            "env",
            &environment[0],
            &environment[1],
            PLUTO,
            "--nofork",
            "--stderrlog",
            "--no-dnssec",
            "--config",
            &config,
            "--secretsfile",
            &secrets,
            "--nssdir",
            &nss,
            "--ipsecdir",
            &here,
            "--rundir",
            &here,
            "--dumpdir",
            &here,
        ];
        let daemon = host.namespace.spawn(&command).unwrap();
        let socket = directory.path().join("pluto.ctl");
        let pluto = Pluto { directory, daemon };
        testbed::rig::wait_for("pluto's socket", PATIENCE, || socket.exists())
            .unwrap_or_else(|why| panic!("{why}: {}", pluto.log()));
        pluto
    }

    fn log(&self) -> String {
        self.daemon.stdout() + &self.daemon.stderr()
    }

    /// Commands it.
    fn whack(&self, host: &Host, words: &str) -> String {
        let here = self.directory.path().display().to_string();
        let mut command = vec![WHACK, "--rundir", &here];
        command.extend(words.split_whitespace());
        host.namespace.run(&command).unwrap_or_else(|why| panic!("{words}: {why}\n{}", self.log()))
    }
}

#[test]
fn libreswan_makes_rekeys_and_ends_a_tunnel() {
    const NAME: &str = "libreswan_makes_rekeys_and_ends_a_tunnel";
    if skip(NAME) || testbed::rig::skip_without(NAME, &["certutil"]) {
        return;
    }
    if !Path::new(PLUTO).exists() {
        println!("{NAME}: skipped: libreswan is not installed");
        return;
    }
    let mut pair = Pair::new("");
    pair.a.charon.kill();
    pair.b.connect([2, 1], Way { child: "esp_proposals = aes256gcm16", ..PLAIN }, "");
    let pluto = Pluto::start(&pair.a);
    pluto.whack(&pair.a, "--listen");
    pluto.whack(&pair.a, CONNECTION);
    // The first packet makes a tunnel.
    pluto.whack(&pair.a, "--route --name net");
    pair.until("the trap", || pair.a.directions() == [Out]);
    pair.a.acquire();
    pair.await_pairs(1);
    pair.until("all policies", || pair.a.directions() == [In, Out, Forward]);
    // Either side has others made; and the server goes and comes meanwhile.
    for side in ["charon", "pluto"] {
        let before = pair.a.spis_to("192.0.2.2");
        if side == "charon" {
            pair.b.swanctl(&["--rekey", "--child", "net"]);
        } else {
            pair.a.bench.stop();
            pair.a.bench.start();
            pluto.whack(&pair.a, "--rekey-ipsec --name net");
        }
        pair.until(&format!("other associations by {side}"), || {
            let after = pair.a.spis_to("192.0.2.2");
            after.len() == 1 && after.is_disjoint(&before) && after == pair.b.spis_to("192.0.2.2")
        });
        pair.await_pairs(1);
    }
    pluto.whack(&pair.a, "--terminate --name net");
    pair.until("no associations", || [&pair.a, &pair.b].iter().all(|host| host.associations().is_empty()));
    assert_eq!(pair.a.directions(), [Out], "the trap is there still");
    pair.a.acquire();
    pair.await_pairs(1);
}

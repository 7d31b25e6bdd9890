// SPDX-License-Identifier: MIT OR Apache-2.0
//! Named sets of a firewall change while two workers send packets through it: no packet is lost, and the next one of either sees the change.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use testbed::process::Process;
use testbed::rig::wait_for;

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(120);

/// Each packet is for the rules.
const RULES: &str = "zone inside eth1\nzone outside eth0\nset blocked addresses\n\
    drop from inside src @blocked\naccept from inside to outside stateless\n";

/// A router in which two sources on two workers send through one firewall.
struct Site {
    files: tempfile::TempDir,
    router: Process,
}

impl Site {
    fn new() -> Site {
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name);
        std::fs::write(path("rules"), RULES).unwrap();
        let source = |host: u8| {
            let bytes =
                wire::compose::compose(&format!("ip 10.0.0.{host} to 192.0.2.1 / udp 7 to 7")).unwrap().bytes;
            let hex = wire::fields::hex(&bytes);
            format!(
                "RatedSource(DATA \\<{hex}>, RATE 20000, LIMIT -1, STOP false) -> CheckIPHeader -> Paint(2)"
            )
        };
        let config = format!(
            "fw :: Firewall({}, LINK eth0, LINK eth1); Idle -> [0] fw; Idle -> [2] fw;
            one :: {} -> [1] fw; two :: {} -> [1] fw; StaticThreadSched(one 0, two 1);
            fw[0] -> Discard; fw[1] -> passed :: Counter -> Discard; fw[2] -> Discard; fw[3] -> Discard; fw[4] -> Discard;",
            path("rules").display(),
            source(1),
            source(2),
        );
        std::fs::write(path("r.click"), config).unwrap();
        let mut command = Command::new(JUNCTOR);
        command.args(["run", "-j", "2", "--control"]).arg(path("sock")).arg(path("r.click"));
        let mut router = Process::spawn(command, "junctor run".to_owned()).unwrap();
        wait_for("the router", PATIENCE, || path("sock").exists() || router.ended().is_some()).unwrap();
        assert!(router.ended().is_none(), "{}", router.stderr());
        Site { files, router }
    }

    fn junctor(&self, words: &[&str]) -> Output {
        Command::new(JUNCTOR).args(words).arg("--socket").arg(self.path("sock")).output().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.junctor(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{words:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn set(&self, words: &[&str]) -> Value {
        self.json(&[&["firewall", "set", "blocked"], words].concat())
    }

    /// Reads or writes a handler.
    fn ctl(&self, words: &[&str]) -> String {
        let output = Command::new(JUNCTOR)
            .args(["ctl", "--socket"])
            .arg(self.path("sock"))
            .args(words)
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn number(&self, handler: &str) -> u64 {
        let text = self.ctl(&[handler]);
        text.trim().parse().unwrap_or_else(|_| panic!("{handler}: {text}"))
    }

    /// Waits until both sources have sent as many packets more.
    fn wait_for_packets(&self, more: u64) {
        for source in ["one.count", "two.count"] {
            let until = self.number(source) + more;
            wait_for(source, PATIENCE, || self.number(source) >= until).unwrap();
        }
    }

    /// Whether packets pass, of many from each source that come from now on.
    fn passes(&self) -> bool {
        let before = self.number("passed.count");
        self.wait_for_packets(2000);
        self.number("passed.count") > before
    }
}

#[test]
fn a_change_is_seen_by_the_next_packet_of_all_workers() {
    let mut site = Site::new();
    assert!(site.passes());
    // No packet of either worker passes any more once the command has ended.
    let added = site.set(&["add", "10.0.0.1", "10.0.0.0/30", "2001:db8::/32", "for", "1h"]);
    assert_eq!((&added["before"], &added["entries"]), (&0.into(), &3.into()));
    assert!(!site.passes());
    // One entry less, and another one still holds both sources.
    assert_eq!(site.set(&["remove", "10.0.0.1"])["entries"], 2);
    assert!(!site.passes());
    assert_eq!(site.set(&["remove", "10.0.0.0/30"])["entries"], 1);
    assert!(site.passes());
    // A long list comes and goes, with both sources at its end.
    let mut list = String::new();
    (0..60_000u32)
        .for_each(|n| writeln!(list, "172.{}.{}.{}", 16 + (n >> 16), n >> 8 & 255, n & 255).unwrap());
    std::fs::write(site.path("list"), format!("{list}10.0.0.1\n10.0.0.2 for 1h\n")).unwrap();
    let list = site.path("list").display().to_string();
    for _ in 0..3 {
        assert_eq!(site.set(&["load", &list])["entries"], 60_002);
        assert!(!site.passes());
        assert_eq!(site.set(&["flush"])["before"], 60_002);
        assert!(site.passes());
    }
    site.set(&["load", &list]);
    commands(&site);
    // Each packet passed or was dropped by the rule.
    site.ctl(&["one.active", "false"]);
    site.ctl(&["two.active", "false"]);
    let settled = || {
        let shown = site.json(&["firewall", "show"]);
        let by_rule = |n: usize| shown["rules"][n]["packets"].as_u64().unwrap();
        let sent = site.number("one.count") + site.number("two.count");
        (sent, by_rule(0) + by_rule(1), by_rule(1) == site.number("passed.count"))
    };
    wait_for("the last packets", PATIENCE, || settled().0 == settled().1).unwrap();
    let (sent, judged, all_passed) = settled();
    assert!(sent == judged && all_passed && sent > 20_000, "{sent} {judged}");
    assert!(site.router.ended().is_none());
}

/// What other commands say about a long set.
fn commands(site: &Site) {
    let sets = site.json(&["firewall", "sets"]);
    assert_eq!((&sets["sets"][0]["entries"], &sets["sets"][0]["ending"]), (&60_002.into(), &1.into()));
    let found = site.set(&["test", "10.0.0.2"]);
    assert_eq!((&found["is_in"], &found["by"][0]["entry"]), (&true.into(), &"10.0.0.2".into()));
    assert_eq!(site.junctor(&["firewall", "set", "blocked", "test", "10.0.0.9"]).status.code(), Some(1));
    let saved = site.path("saved").display().to_string();
    assert_eq!(site.set(&["save", &saved])["entries"], 60_002);
    assert_eq!(site.set(&["load", &saved, "--revalidate"])["entries"], 60_002);
    let shown = site.set(&["show"]);
    assert_eq!(shown["entries"].as_array().unwrap().len(), 60_002);
    assert_eq!(shown["entries"].as_array().unwrap().iter().filter(|e| !e["ends_s"].is_null()).count(), 1);
    let wrong = site.junctor(&["firewall", "set", "blocked", "remove", "10.0.0.9"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("'10.0.0.9' is no entry of the set"), "{said}");
    let wrong = site.junctor(&["firewall", "set", "blokked", "add", "10.0.0.9"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("the rules have blocked"), "{wrong:?}");
}

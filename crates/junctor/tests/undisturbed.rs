// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running router's traffic goes on with any configuration that it is given: every class, with extreme and random arguments, by SIGHUP and by
//! `hotconfig`, while one host pings another through the router. Not one ping is lost.

#[path = "../../elements/tests/common/cases.rs"]
mod cases;
#[path = "../../elements/tests/common/manual.rs"]
mod manual;

use std::process::Command;
use std::time::Duration;

use testbed::pings::Pings;
use testbed::rig::{Cable, Process, Rig, wait_for};

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(180);

/// A cable between the hosts: what every configuration has.
const CABLE: &str =
    "FromDevice(d0, METHOD AF_PACKET, PROMISC true) -> queue_to_b :: Queue -> ToDevice(d1, METHOD AF_PACKET);
FromDevice(d1, METHOD AF_PACKET, PROMISC true) -> queue_to_a :: Queue -> ToDevice(d0, METHOD AF_PACKET);
";

/// Classes whose purpose is to end the router, or to refuse a configuration.
const ENDS: &[&str] = &["DriverManager", "Error", "PokeHandlers", "Script"];

/// Variants of each class that are given by each way.
const VARIANTS: usize = 2;

struct Running {
    process: Process,
    file: String,
    control: String,
}

impl Running {
    fn start(rig: &Rig, directory: &std::path::Path) -> Running {
        let [file, control] =
            ["router.click", "control"].map(|name| directory.join(name).display().to_string());
        std::fs::write(&file, CABLE).unwrap();
        // Some configurations make files where the router stands.
        let line = format!("cd {} && exec {JUNCTOR} run -R --control {control} {file}", directory.display());
        let mut process = rig.dut.spawn(&["sh", "-c", &line]).unwrap();
        for device in ["d0", "d1"] {
            for action in ["receives", "sends"] {
                process
                    .wait_for_text(&format!("{device}: {action} by"), PATIENCE)
                    .unwrap_or_else(|e| panic!("{e}"));
            }
        }
        Running { process, file, control }
    }

    /// How many configurations that came by SIGHUP were taken or refused.
    fn answers(&self) -> usize {
        let said = self.process.stderr();
        ["junctor: new configuration: ", "the old configuration goes on"]
            .iter()
            .map(|t| said.matches(t).count())
            .sum()
    }

    fn hang_up(&mut self, text: &str) {
        let before = self.answers();
        std::fs::write(&self.file, text).unwrap();
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        let done = || self.answers() > before || self.process.ended().is_some();
        wait_for("an answer to SIGHUP", PATIENCE, done).unwrap_or_else(|e| panic!("{e}\n{text}"));
    }

    /// Whether it was accepted.
    fn hotconfig(&self, text: &str) -> bool {
        let output = Command::new(JUNCTOR)
            .args(["ctl", "--socket", &self.control, "hotconfig", text])
            .output()
            .unwrap();
        output.status.success()
    }
}

/// Configurations with an extreme or a random argument.
fn texts() -> Vec<String> {
    let registry = elements::registry();
    let mut random = fastrand::Rng::with_seed(11);
    let mut texts = Vec::new();
    for class in registry.iter().map(|c| c.name).filter(|name| !ENDS.contains(name)) {
        let manual = registry.get(class).and_then(elements::manual).unwrap_or_default();
        let examples = manual::examples(manual);
        let Some((graph, at)) = cases::example(&registry, &elements::options(), class, &examples) else {
            continue;
        };
        if graph.elements.iter().any(|e| ENDS.contains(&e.class.as_str())) {
            continue;
        }
        let asked = cases::asked(&registry, &graph, at);
        for config in
            cases::variants(&graph.elements[at].config, &asked, &mut random).into_iter().take(2 * VARIANTS)
        {
            let mut graph = graph.clone();
            graph.elements[at].config = config.as_str().into();
            // The examples stop at their ends; this router shall not.
            texts.push(format!("{CABLE}{}", graph.to_click().replace("STOP true", "STOP false")));
        }
    }
    assert!(texts.len() > 800, "{}", texts.len());
    texts
}

#[test]
fn no_configuration_disturbs_the_traffic() {
    if testbed::rig::skip_without("no_configuration_disturbs_the_traffic", &["ping", "ethtool"]) {
        return;
    }
    let rig = Rig::new(Cable::default()).unwrap();
    rig.a.ip("addr add 10.0.1.2/24 dev a0").unwrap();
    rig.b.ip("addr add 10.0.1.3/24 dev b0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut router = Running::start(&rig, directory.path());
    let pings = Pings::start(&rig.a, "10.0.1.3", 10, PATIENCE).unwrap();
    let mut accepted = 0;
    for (number, text) in texts().iter().enumerate() {
        if number % 2 == 0 {
            router.hang_up(text);
        } else {
            accepted += usize::from(router.hotconfig(text));
        }
        let ended = router.process.ended();
        assert!(ended.is_none(), "{ended:?}, {text}\n{}", router.process.stderr());
    }
    // Nor does a trial end by anything but a refusal.
    assert!(!router.process.stderr().contains("panicked"), "{}", router.process.stderr());
    assert!(accepted > 20, "{accepted}");
    // All that was sent until now is answered, and some that is sent later.
    let pinged = pings.end(PATIENCE).unwrap();
    assert!(pinged.lost.is_empty(), "{pinged:?}");
    assert!(router.process.interrupt(PATIENCE).unwrap().status.success());
}

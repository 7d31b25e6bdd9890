// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routers of a service are confined: what they cannot take while they run starts them again.

use std::process::Command;

use serde_json::Value;
use testbed::rig::{Namespace, wait_for};

use super::{EXTRA, JUNCTOR, PATIENCE, ROUTER, RULES, Service, router};

/// The roles of the threads of a plane's process.
fn roles(service: &Service, plane: &str) -> Vec<String> {
    let pid = service.pid(plane).to_string();
    let output =
        Command::new(JUNCTOR).args(["doctor", "--security", "--json", "--pid", &pid]).output().unwrap();
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let threads = seen["security"]["threads"].as_array().unwrap();
    let mut roles: Vec<String> =
        threads.iter().map(|thread| thread["role"].as_str().unwrap().to_owned()).collect();
    roles.sort();
    roles.dedup();
    roles
}

#[test]
fn routers_of_a_service_are_confined_unless_told_otherwise() {
    let confined = router(&[]);
    wait_for("workers give up their rights", PATIENCE, || {
        roles(&confined, "router") == ["main", "service", "worker"]
    })
    .unwrap();
    // What its filters allow is changed under traffic.
    let (pid, count) = (confined.pid("router"), confined.count("router"));
    confined.write("router.click", &format!("{ROUTER}{EXTRA}"));
    assert!(confined.good(&["apply"]).contains("hot swap"));
    assert!(confined.has_extra("router") && confined.pid("router") == pid);
    confined.goes_on_from("router", count);
    // What needs more is started again, with the rights that it needs.
    let socket = "s :: Socket(UDP, 127.0.0.1, 9); Idle -> s; s -> Discard;\n";
    confined.write("router.click", &format!("{ROUTER}{EXTRA}{socket}"));
    let said = confined.good(&["apply"]);
    assert!(
        said.contains("plane router was started again for this configuration: this router is confined"),
        "{said}"
    );
    assert!(confined.ask("router", &["ctl", "s.class"]) == "Socket" && confined.pid("router") != pid);
    assert_eq!(confined.now(), (3, 3));
    // A line of the environment leaves one out, and so does a plane's own.
    let mut free = Service::new(&[("router.click", ROUTER), ("rules/fw", RULES)]);
    let mut command = free.command(&["service", &free.name]);
    command.env("JUNCTOR_CONFINE", "off");
    free.start_by(command);
    assert_eq!(roles(&free, "router"), ["unconfined"]);
    let planes = "[planes.user]\nkind = \"user\"\nconfig = \"router.click\"\nenvironment = { JUNCTOR_CONFINE = \"off\" }\n";
    let mut free =
        Service::new(&[("deployment.toml", planes), ("router.click", ROUTER), ("rules/fw", RULES)]);
    free.start();
    assert_eq!(roles(&free, "user"), ["unconfined"]);
}

/// A tap that no configuration named before needs a right that a confined router has given up.
#[test]
fn a_new_tap_starts_a_confined_router_again() {
    if testbed::rig::skip("a_new_tap_starts_a_confined_router_again") {
        return;
    }
    let home = Namespace::new("tap").unwrap();
    let mut service = Service::new(&[("router.click", ROUTER), ("rules/fw", RULES)]);
    service.start_in(&home);
    let pid = service.pid("router");
    service.write(
        "router.click",
        &format!("{ROUTER}t :: KernelTap(192.0.2.1/24, DEVNAME new0) -> Discard; Idle -> t;\n"),
    );
    let said = service.good(&["apply"]);
    assert!(said.contains("plane router was started again for this configuration: "), "{said}");
    assert!(home.ip("link show new0").is_ok() && service.pid("router") != pid);
    assert_eq!(service.now(), (2, 2));
    // It may be named again, and what cannot be had at all is put back.
    service.write(
        "router.click",
        &format!("{ROUTER}{EXTRA}t :: KernelTap(192.0.2.1/24, DEVNAME new0) -> Discard; Idle -> t;\n"),
    );
    let pid = service.pid("router");
    service.good(&["apply"]);
    assert!(service.has_extra("router") && service.pid("router") == pid);
    home.ip("link add name other0 type bridge").unwrap();
    service.write(
        "router.click",
        &format!("{ROUTER}t :: KernelTap(192.0.2.1/24, DEVNAME other0) -> Discard; Idle -> t;\n"),
    );
    let (status, said) = service.config(&["apply"]);
    assert!(
        status == 1 && said.contains("everything was put back") && said.contains("other0"),
        "{status}: {said}"
    );
    assert_eq!((service.now(), service.has_extra("router")), ((3, 3), true));
}

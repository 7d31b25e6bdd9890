// SPDX-License-Identifier: MIT OR Apache-2.0
//! What planes leave to those that follow, what is done about planes that are left, and files that a service may not read.

use std::collections::BTreeSet;
use std::os::unix::fs::chown;
use std::sync::{Arc, Mutex};

use super::*;

/// A plane that leaves this many descriptors.
const MANY: usize = 450;
/// As many of them have room in systemd.
const ROOM: usize = 100;

/// It leaves files whose content is their name, and writes down how many it got and how many of those are what their names say.
const LEAVES: &str = r#"import array, os, socket, time
count = int(os.environ.get("LISTEN_FDS", 0))
names = os.environ.get("LISTEN_FDNAMES", "").split(":")
got = {names[n]: 3 + n for n in range(count)}
right = sum(os.pread(fd, 99, 0).decode() == name for name, fd in got.items())
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.connect(os.environ["NOTIFY_SOCKET"])
for n in range(MANY):
    name = "fd%d" % n
    fd = got.get(name)
    if fd is None:
        fd = os.memfd_create(name)
        os.write(fd, name.encode())
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))
    manager.sendmsg([b"FDSTORE=1\nFDNAME=" + name.encode()], [rights])
with open("TOP/seen.new", "w") as seen:
    seen.write("%d %d" % (count, right))
os.rename("TOP/seen.new", "TOP/seen")
manager.send(b"READY=1")
time.sleep(100000)
"#;

const LEAVING: &str =
    "[planes.p]\nkind = \"control\"\ncommand = [\"python3\", \"leaves.py\"]\nready = \"notified\"\n";

#[test]
fn all_descriptors_of_a_plane_go_on() {
    if testbed::rig::skip_without("all_descriptors_of_a_plane_go_on", &["python3"]) {
        return;
    }
    let mut service = Service::new(&[("deployment.toml", LEAVING)]);
    let top = service.top.path().display().to_string();
    service.write("leaves.py", &LEAVES.replace("TOP", &top).replace("MANY", &MANY.to_string()));
    let path = service.path("systemd");
    let systemd = Listener::bind(&path).unwrap();
    let most = Arc::new(Mutex::new(0));
    let noted = most.clone();
    std::thread::spawn(move || {
        let mut held = BTreeSet::new();
        while let Ok(news) = systemd.next() {
            for said in news {
                match said {
                    Said::Store(name, _) => _ = held.insert(name),
                    Said::Forget(name) => _ = held.remove(&name),
                    Said::Ready | Said::Heartbeat => {}
                }
                let mut most = noted.lock().unwrap();
                *most = held.len().max(*most);
            }
        }
    });
    let mut command = service.command(&["service", &service.name]);
    command.env(SOCKET, &path).env("FDSTORE", ROOM.to_string());
    service.start_by(command);
    let seen = service.path("seen");
    let takes_over = |service: &Service| {
        std::fs::remove_file(&seen).unwrap();
        let mut restart = Command::new(JUNCTOR);
        restart.args(["restart", "p", "--deployment", &service.name]);
        let output = restart.env("XDG_RUNTIME_DIR", service.path("run")).output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
        std::fs::read_to_string(&seen).unwrap()
    };
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), "0 0");
    // From the supervisor to the next process.
    assert_eq!(takes_over(&service), format!("{MANY} {MANY}"));
    // And from the service to the next supervisor.
    let supervisor = || {
        let text = std::fs::read_to_string(service.planes().join("lock")).unwrap_or_default();
        text.trim().parse::<u32>().unwrap_or(0)
    };
    let before = supervisor();
    signal("-KILL", before);
    let answers = || {
        let mut ps = Command::new(JUNCTOR);
        ps.args(["ps", "--deployment", &service.name]).env("XDG_RUNTIME_DIR", service.path("run"));
        supervisor() != before && ps.output().unwrap().status.success()
    };
    wait_for("another supervisor", PATIENCE, answers).unwrap();
    assert_eq!(takes_over(&service), format!("{MANY} {MANY}"));
    // From the service's program to the next one.
    let upgraded = service.command(&["service", &service.name, "--upgrade"]).output().unwrap();
    assert!(upgraded.status.success(), "{}", text_of(&upgraded));
    assert_eq!(takes_over(&service), format!("{MANY} {MANY}"));
    // What systemd has no room for is said, once.
    assert_eq!(*most.lock().unwrap(), ROOM);
    let said = service.process.as_ref().unwrap().stderr();
    assert!(said.contains("holds 100 descriptors at most (FileDescriptorStoreMax=)"), "{said}");
}

#[test]
fn planes_are_stopped_when_no_service_follows() {
    let mut service = Service::new(&[("router.click", ROUTER), ("rules/fw", RULES)]);
    let start = |service: &mut Service, outlive: &str| {
        let command = service.command(&["service", &service.name, "--planes-outlive", outlive]);
        service.start_by(command);
        std::fs::read_to_string(service.path("run/watcher")).unwrap().parse::<u32>().unwrap()
    };
    let first = start(&mut service, "1h");
    let (router, count) = (service.pid("router"), service.count("router"));
    service.kill();
    // The next service has a watcher of its own, and the first one leaves.
    let second = start(&mut service, "1s");
    assert_ne!(first, second);
    wait_for("the first watcher's end", PATIENCE, || command_line(first).is_empty()).unwrap();
    assert_eq!(service.pid("router"), router);
    service.goes_on_from("router", count);
    // Now none follows.
    service.kill();
    wait_for("the planes' end", PATIENCE, || command_line(router).is_empty()).unwrap();
    wait_for("the second watcher's end", PATIENCE, || command_line(second).is_empty()).unwrap();
    assert!(!service.runs("router"));
    // A service that is stopped leaves no watcher.
    let third = start(&mut service, "1h");
    assert!(service.runs("router"));
    service.stop();
    wait_for("the third watcher's end", PATIENCE, || command_line(third).is_empty()).unwrap();
}

#[test]
fn a_file_that_a_service_may_not_read_changes_nothing() {
    if testbed::rig::skip_without("a_file_that_a_service_may_not_read_changes_nothing", &["setpriv"]) {
        return;
    }
    let mut service = Service::new(&[("router.click", ROUTER), ("rules/fw", RULES)]);
    // As under systemd, root reads files of others by their permissions alone.
    let plain = service.command(&["service", &service.name]);
    let mut command = Command::new("setpriv");
    command.arg("--bounding-set=-dac_override,-dac_read_search").arg(JUNCTOR).args(plain.get_args());
    command.env("XDG_RUNTIME_DIR", service.path("run"));
    service.start_by(command);
    let (router, count) = (service.pid("router"), service.count("router"));
    // Elsewhere, as no commit has it.
    let outside = tempfile::tempdir().unwrap();
    let rules = outside.path().join("rules");
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(outside.path(), 0o755);
    std::fs::write(&rules, RULES).unwrap();
    mode(&rules, 0o600);
    chown(&rules, Some(1), Some(1)).unwrap();
    service.write("router.click", &ROUTER.replace("rules/fw", &rules.display().to_string()));
    let (status, said) = service.config(&["apply"]);
    let whose = "belongs to user 1 and group 1 with mode 600, and this process, user 0, may not read it";
    assert!(
        status == 1 && said.contains(whose) && said.contains("cannot read it either"),
        "{status}: {said}"
    );
    assert_eq!((service.pid("router"), service.now(), service.rules("router")), (router, (1, 1), 2));
    // One of the configuration's own is not damaged.
    service.write("router.click", ROUTER);
    service.write("keys/a", "hidden");
    let key = service.path("etc/keys/a");
    mode(&key, 0o600);
    chown(&key, Some(1), Some(1)).unwrap();
    let (status, said) = service.config(&["apply"]);
    assert!(status == 1 && said.contains(&format!("keys/a {whose}")), "{status}: {said}");
    assert!(said.contains("chgrp 0 keys/a") && !said.contains("damaged"), "{said}");
    assert_eq!((service.pid("router"), service.now()), (router, (1, 1)));
    service.goes_on_from("router", count);
    // The remedy helps; and a start that can succeed takes place.
    for path in [&key, &rules] {
        chown(path, None, Some(0)).unwrap();
        mode(path, 0o640);
    }
    service.write("router.click", &ROUTER.replace("rules/fw", &rules.display().to_string()));
    let said = service.good(&["apply"]);
    assert!(said.contains("plane router was started again for this configuration"), "{said}");
    assert!(service.pid("router") != router && service.rules("router") == 2);
}

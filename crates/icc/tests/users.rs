// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another user at a domain: the kernel attests it, and each endpoint says what it may do. Needs the superuser, who alone can become another.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use junctor_icc::{AttachError, Domain, Endpoint, Node, NodeId, Rights};

/// A user and a group that have nothing.
const NOBODY: u32 = 65_534;
const PLACE: &str = "JUNCTOR_ICC_TEST_DOMAIN";

/// What the other user does.
#[test]
#[ignore = "a part of the other test"]
fn the_other_user() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let node = Node::connect(place, NodeId::new(7, 2)).unwrap();
    let denied = |result: Result<(), AttachError>| assert!(matches!(result, Err(AttachError::Denied { .. })));
    denied(node.sender("private").map(drop));
    denied(node.receiver("private").map(drop));
    denied(node.sender("to_all").map(drop));
    denied(node.counter_writer("counters").map(drop));
    assert!(node.sender("from_all").is_ok() && node.receiver("to_all").is_ok());
    denied(node.receiver("from_all").map(drop));
    let mut counters = Vec::new();
    assert_eq!(node.counter_reader("counters").unwrap().read(&mut counters), Ok(1));
    assert_eq!(counters, [5, 6]);
    denied(node.block_writer("blocks").map(drop));
    let mut block = Vec::new();
    assert_eq!((node.block_reader("blocks").unwrap().read(&mut block), block), (Ok(1), b"whole".to_vec()));
    denied(node.block_reader("private blocks").map(drop));
}

#[test]
fn another_user_may_do_what_the_mode_says() {
    if Rights::own().uid != 0 {
        println!("skipped: only the superuser can become another user");
        return;
    }
    let place = format!("@junctor-icc-users-{}", std::process::id());
    let messages = |port, name, mode| Endpoint::messages(port, name, 100, 4).rights(Rights::mode(mode));
    let endpoints = [
        messages(1, "private", 0o660),
        messages(2, "to_all", 0o604),
        messages(3, "from_all", 0o602),
        Endpoint::counters(4, "counters", 8).rights(Rights::mode(0o644)),
        Endpoint::blocks(5, "blocks", 8).rights(Rights::mode(0o644)),
        Endpoint::blocks(6, "private blocks", 8),
    ];
    let domain = Domain::serve(NodeId::new(7, 1), &endpoints, Some(place.as_ref())).unwrap();
    domain.node(1).unwrap().counter_writer("counters").unwrap().publish(&[5, 6]).unwrap();
    domain.node(1).unwrap().block_writer("blocks").unwrap().publish(b"whole").unwrap();
    // A copy that the other user can reach.
    let dir = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let program = dir.path().join("other");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut other = Command::new(&program);
    other.args(["--exact", "the_other_user", "--include-ignored", "--nocapture"]).env(PLACE, &place);
    other.uid(NOBODY).gid(NOBODY).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
    assert!(other.status().unwrap().success());
}

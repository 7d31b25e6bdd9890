// SPDX-License-Identifier: MIT OR Apache-2.0
//! A deleted association, with the key and the salt that it was made from, is soon gone from the memory of a router, though nothing else is changed.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::Duration;

use lab::process::Process;
use lab::rig::wait_for;
use regex::bytes::Regex;

const JUNCTOR: &str = env!("CARGO_BIN_EXE_junctor");
const PATIENCE: Duration = Duration::from_secs(60);
/// A router with a database.
const TEXT: &str = "db :: IPsecDatabase; Idle -> IPsecEncrypt(db) -> Discard;";
/// The key of AES and its salt.
const KEY: [u8; 20] = [
    0x9f, 0x3c, 0x51, 0xe8, 0x07, 0xb2, 0x6d, 0xca, 0x44, 0x18, 0xf1, 0x7e, 0x93, 0x2a, 0xd5, 0x60, 0xbb,
    0x0c, 0x86, 0xe3,
];

/// Whether bytes are in the writable memory of a process.
fn is_in_memory(pid: u32, wanted: &[u8]) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let escaped: String = wanted.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    let wanted_there = Regex::new(&format!("(?s-u){escaped}")).unwrap();
    let mut block = vec![0; 1 << 20];
    maps.lines().filter(|line| line.contains(" rw")).any(|line| {
        let (from, to) = line.split_once(' ').and_then(|(range, _)| range.split_once('-')).unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let (from, to) = (number(from), number(to));
        // A key may lie across two blocks.
        let places = (from..to).step_by(block.len() - wanted.len());
        places.into_iter().any(|at| {
            let len = block.len().min((to - at) as usize);
            // What has been unmapped meanwhile holds nothing.
            memory.read_exact_at(&mut block[..len], at).is_ok() && wanted_there.is_match(&block[..len])
        })
    })
}

#[test]
fn a_deleted_association_leaves_memory() {
    let files = tempfile::tempdir().unwrap();
    let socket = files.path().join("socket").display().to_string();
    let mut run = Command::new(JUNCTOR);
    run.args(["run", "--control", &socket, "-e", TEXT]);
    let router = Process::spawn(run, "junctor run".into()).unwrap();
    let ctl = |words: &[&str]| {
        let output = Command::new(JUNCTOR).args(["ctl", "--socket", &socket]).args(words).output().unwrap();
        output.status.success().then_some(()).ok_or(output)
    };
    wait_for("the router", PATIENCE, || ctl(&["version"]).is_ok()).unwrap();
    let hex: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    let id = "src 192.0.2.1 dst 192.0.2.2 spi 0x100";
    let is_known = || is_in_memory(router.id(), &KEY);
    let add = format!("{id} mode transport aead aes-gcm 0x{hex} 128");
    for _ in 0..2 {
        ctl(&["db.add_sa", &add]).unwrap();
        assert!(is_known());
        ctl(&["db.delete_sa", id]).unwrap();
        wait_for("the end of the association", PATIENCE, || !is_known()).unwrap();
    }
}

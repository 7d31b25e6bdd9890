// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is deleted is soon gone from the memory of a router, though nothing else is changed: keys, the schedules made of them, and the texts that they came as.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Output};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use regex::bytes::Regex;
use testbed::process::Process;
use testbed::rig::wait_for;

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

/// A router with a control socket.
struct Router {
    process: Process,
    socket: String,
    _files: tempfile::TempDir,
}

impl Router {
    fn of(text: &str) -> Router {
        let files = tempfile::tempdir().unwrap();
        let [socket, config] = ["socket", "config"].map(|name| files.path().join(name).display().to_string());
        std::fs::write(&config, text).unwrap();
        let mut run = Command::new(JUNCTOR);
        run.args(["run", "--allow-reconfigure", "--control", &socket, &config]);
        let process = Process::spawn(run, "junctor run".into()).unwrap();
        let router = Router { process, socket, _files: files };
        wait_for("the router", PATIENCE, || router.try_ctl(&["version"]).is_ok()).unwrap();
        router
    }

    fn try_ctl(&self, words: &[&str]) -> Result<(), Output> {
        let output =
            Command::new(JUNCTOR).args(["ctl", "--socket", &self.socket]).args(words).output().unwrap();
        if output.status.success() { Ok(()) } else { Err(output) }
    }

    fn ctl(&self, words: &[&str]) {
        self.try_ctl(words).unwrap();
    }

    fn knows(&self, wanted: &[u8]) -> bool {
        is_in_memory(self.process.id(), wanted)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_deleted_association_leaves_memory() {
    let router = Router::of(TEXT);
    let id = "src 192.0.2.1 dst 192.0.2.2 spi 0x100";
    // Round keys begin with the key; the salt is elsewhere.
    let is_known = || router.knows(&KEY[..16]);
    let add = format!("{id} mode transport aead aes-gcm 0x{} 128", hex(&KEY));
    for _ in 0..2 {
        router.ctl(&["db.add_sa", &add]);
        assert!(is_known());
        router.ctl(&["db.export"]);
        let is_text_there = || router.knows(hex(&KEY).as_bytes());
        wait_for("the end of the texts of commands and answers", PATIENCE, || !is_text_there()).unwrap();
        router.ctl(&["db.delete_sa", id]);
        wait_for("the end of the association", PATIENCE, || !is_known()).unwrap();
    }
}

#[test]
fn keys_leave_memory_with_their_configuration() {
    let [other, half, half_more] = [0x55, 0x66, 0x77].map(|change| KEY.map(|byte| byte ^ change));
    let (key, old_key, wireguard) = (&KEY[..16], &other[..16], [&half[..16], &half_more[..16]].concat());
    let [private, peer] = [&wireguard[..], &[7; 32]].map(|key| STANDARD.encode(key));
    let router = Router::of(&format!(
        "{TEXT}
         of_configuration :: IPsecDatabase(SA src 192.0.2.1 dst 192.0.2.2 spi 0x100 mode transport aead aes-gcm 0x{} 128);
         Idle -> IPsecEncrypt(of_configuration) -> Discard;
         table :: IPsecRouteTable(10.0.0.0/8 0 256 {} {} 1 32); Idle -> table -> Discard;
         tunnel :: WireGuard(ADDRESS 192.0.2.1, PRIVATE_KEY {private}, PEER {peer} allowed-ips 10.0.0.0/8);
         Idle -> tunnel -> Discard; Idle -> [1] tunnel [1] -> Discard;",
        hex(&KEY),
        hex(old_key),
        hex(old_key),
    ));
    let texts = [hex(&KEY), hex(old_key), private];
    let secrets = [key, old_key, &wireguard];
    for secret in secrets.into_iter().chain(texts.iter().map(|text| text.as_bytes())) {
        assert!(router.knows(secret), "the test sees what is there: {secret:?}");
    }
    router.ctl(&["hotconfig", TEXT]);
    wait_for("the end of the keys", PATIENCE, || !secrets.iter().any(|secret| router.knows(secret))).unwrap();
    // The text is there until the way back does not lead to it any more.
    router.ctl(&["hotconfig", TEXT]);
    let is_there = || texts.iter().any(|text| router.knows(text.as_bytes()));
    wait_for("the end of the text", PATIENCE, || !is_there()).unwrap();
}

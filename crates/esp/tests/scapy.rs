// SPDX-License-Identifier: MIT OR Apache-2.0
//! scapy opens what we seal, and we open what scapy seals: all algorithms, modes and families.
//!
//! Needs a Python that can import scapy and cryptography: `python3`, `/usr/bin/python3`, or the one that `JUNCTOR_PYTHON` names. Without it the test
//! says so and passes.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use junctor_esp::algorithm::{Aead, Auth, Cipher};
use junctor_esp::sa::{Rules, UdpPorts};
use junctor_esp::{Config, Mode, Sa, Spec, inbound, open, outbound, seal};
use packet::Packet;
use wire::{Protocol, ipv4, ipv6, tcp};

/// An algorithm for us and, by its names, for scapy.
struct Algorithm {
    spec: Spec,
    crypt: &'static str,
    auth: &'static str,
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(37).wrapping_add(seed)).collect()
}

fn algorithms() -> Vec<Algorithm> {
    let combined = |algorithm, len, icv_len, crypt| Algorithm {
        spec: Spec::Combined { algorithm, key: bytes(len, 1), icv_len },
        crypt,
        auth: "NULL",
    };
    let separate = |cipher, len, crypt, auth: Auth, auth_len, name| Algorithm {
        spec: Spec::Separate {
            cipher,
            key: bytes(len, 2),
            auth,
            auth_key: bytes(auth_len, 3),
            icv_len: auth.standard_icv_len(),
        },
        crypt,
        auth: name,
    };
    vec![
        combined(Aead::AesGcm, 20, 16, "AES-GCM"),
        combined(Aead::AesGcm, 36, 16, "AES-GCM"),
        combined(Aead::AesGcm, 36, 12, "AES-GCM"),
        combined(Aead::AesGcm, 20, 8, "AES-GCM"),
        combined(Aead::ChaCha20Poly1305, 36, 16, "CHACHA20-POLY1305"),
        separate(Cipher::AesCbc, 16, "AES-CBC", Auth::HmacSha1, 20, "HMAC-SHA1-96"),
        separate(Cipher::AesCbc, 24, "AES-CBC", Auth::HmacSha256, 32, "SHA2-256-128"),
        separate(Cipher::AesCbc, 32, "AES-CBC", Auth::HmacSha384, 48, "SHA2-384-192"),
        separate(Cipher::AesCbc, 16, "AES-CBC", Auth::HmacSha512, 64, "SHA2-512-256"),
        separate(Cipher::TripleDesCbc, 24, "3DES", Auth::HmacSha1, 20, "HMAC-SHA1-96"),
        separate(Cipher::Null, 0, "NULL", Auth::HmacSha1, 20, "HMAC-SHA1-96"),
        separate(Cipher::Null, 0, "NULL", Auth::HmacSha256, 32, "SHA2-256-128"),
        separate(Cipher::Null, 0, "NULL", Auth::HmacSha384, 48, "SHA2-384-192"),
        separate(Cipher::Null, 0, "NULL", Auth::HmacSha512, 64, "SHA2-512-256"),
    ]
}

/// A TCP segment of so many bytes of payload in a packet of this family.
fn clear(is_six: bool, payload: usize) -> Vec<u8> {
    let len = tcp::HEADER_LEN + payload;
    let mut segment = bytes(len, 9);
    segment[12] = 0x50;
    segment[16..18].fill(0);
    let (payload_len, class) = (len as u16, 0x2e);
    let (packet, sum) = if is_six {
        let (src, dst) = ("2001:db8:1::1".parse().unwrap(), "2001:db8:2::2".parse().unwrap());
        let next_header = Protocol::TCP;
        let repr =
            ipv6::Repr { src, dst, next_header, payload_len, traffic_class: class, ..Default::default() };
        let mut packet = vec![0; ipv6::HEADER_LEN];
        repr.emit(&mut packet).unwrap();
        (packet, wire::checksum::transport_v6(src, dst, Protocol::TCP, &segment))
    } else {
        let (src, dst, fragment) = ([10, 1, 0, 1].into(), [10, 2, 0, 2].into(), ipv4::FLAG_DF);
        let protocol = Protocol::TCP;
        let repr = ipv4::Repr { src, dst, protocol, payload_len, tos: class, fragment, ..Default::default() };
        let mut packet = vec![0; ipv4::HEADER_LEN];
        repr.emit(&mut packet).unwrap();
        (packet, wire::checksum::transport_v4(src, dst, Protocol::TCP, &segment))
    };
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    [packet, segment].concat()
}

struct Case {
    config: Config,
    number: u64,
    clear: Vec<u8>,
    /// With the zeros behind it that hide its length.
    padded: Vec<u8>,
    line: String,
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() { "-".to_owned() } else { bytes.iter().map(|byte| format!("{byte:02x}")).collect() }
}

fn ends(mode: Mode) -> String {
    match mode {
        Mode::Tunnel { from, to } => format!("{from},{to}"),
        Mode::Transport => "-".to_owned(),
    }
}

/// What scapy must know of a packet.
fn line(
    (config, number, is_extended): (&Config, u64, bool),
    algorithm: &Algorithm,
    clear: &str,
    sealed: &[u8],
) -> String {
    let (key, auth_key) = match &config.spec {
        Spec::Combined { key, .. } => (hex(key), "-".to_owned()),
        Spec::Separate { key, auth_key, .. } => (hex(key), hex(auth_key)),
    };
    let mut line = String::new();
    let _ = writeln!(
        line,
        "{} {number} {} {} {key} {} {auth_key} {} {} {} {clear} {}",
        config.spi,
        u8::from(is_extended),
        algorithm.crypt,
        algorithm.auth,
        Sa::new(config).unwrap().suite.icv_len(),
        ends(config.mode),
        if config.udp.is_some() { "udp" } else { "-" },
        hex(sealed),
    );
    line
}

/// A packet as we seal it, and what scapy needs to know. A tunnel pads it to `pad_to` bytes.
fn case(
    algorithm: &Algorithm,
    (mode, pad_to): (Mode, u16),
    has_udp: bool,
    is_extended: bool,
    clear: Vec<u8>,
) -> Case {
    let udp = has_udp.then_some(UdpPorts { from: 4500, to: 4500 });
    let (spec, number) = (algorithm.spec.clone(), if is_extended { 0x7_ffff_fff0 } else { 0xffff_0005 });
    let rules = Rules { pad_to, ..Rules::default() };
    let config = Config { spi: 0xbeef_0001, mode, udp, spec, is_extended, window: 64, rules };
    let sa = Sa::new(&config).unwrap();
    let mut packet = Packet::copy_of(&clear).unwrap();
    let at = outbound::encapsulate(&mut packet, &sa, number, 65535).unwrap();
    seal(&mut [outbound::part(&mut packet, &sa, at, number)]);
    outbound::finish(&mut packet, &sa, at);
    let mut padded = clear.clone();
    if mode != Mode::Transport {
        padded.resize(padded.len().max(pad_to.into()), 0);
    }
    let line = line((&config, number, is_extended), algorithm, &hex(&padded), packet.data());
    Case { config, number, clear, padded, line }
}

fn cases() -> Vec<Case> {
    let four = Mode::Tunnel { from: IpAddr::from([192, 0, 2, 1]), to: IpAddr::from([192, 0, 2, 2]) };
    let six = Mode::Tunnel { from: "2001:db8::1".parse().unwrap(), to: "2001:db8::2".parse().unwrap() };
    let mut cases = Vec::new();
    for algorithm in algorithms() {
        for mode in [four, six, Mode::Transport] {
            for is_six in [false, true] {
                for (has_udp, is_extended) in [(false, false), (true, false), (false, true), (true, true)] {
                    let len = 1 + cases.len() * 7 % 1300;
                    let pad_to = [0, 700][cases.len() % 3 / 2];
                    cases.push(case(&algorithm, (mode, pad_to), has_udp, is_extended, clear(is_six, len)));
                }
            }
        }
    }
    cases
}

/// What a packet is in the clear.
fn opened(config: &Config, number: u64, sealed: &[u8]) -> Result<Vec<u8>, inbound::Dropped> {
    let sa = Sa::new(config).unwrap();
    if config.is_extended {
        // The high half is that of a packet before.
        sa.window.accept(number - 9).unwrap();
    }
    let mut packet = Packet::copy_of(sealed).unwrap();
    let inbound::Found::Esp(arrived) = inbound::find(packet.data())? else { panic!("no ESP") };
    assert_eq!((arrived.spi, arrived.low), (config.spi, number as u32));
    let mut parts = [inbound::part(&mut packet, &sa, &arrived)?];
    open(&mut parts);
    let [part] = parts;
    assert_eq!(part.number, number);
    if !part.is_genuine {
        return Err(inbound::Dropped::Forged);
    }
    inbound::decapsulate(&mut packet, &sa, &arrived, number)?;
    assert_eq!(inbound::find(sealed).map(|_| sa.window.check(number).is_err()), Ok(true));
    Ok(packet.data().to_vec())
}

/// What scapy says of the cases in a file.
fn ask(script: &str, cases: &Path) -> Option<String> {
    const NO_SCAPY: i32 = 77;
    let named = std::env::var("JUNCTOR_PYTHON");
    let pythons = named.as_deref().map_or(vec!["python3", "/usr/bin/python3"], |python| vec![python]);
    for python in pythons {
        let Ok(output) = Command::new(python).arg(script).arg(cases).output() else { continue };
        match output.status.code() {
            Some(0) => return Some(String::from_utf8(output.stdout).unwrap()),
            Some(NO_SCAPY) => {}
            _ => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        }
    }
    println!("skipped: no Python here has scapy and cryptography; set JUNCTOR_PYTHON");
    None
}

#[test]
fn scapy_and_we_open_each_others_packets() {
    let cases = cases();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), cases.iter().map(|case| case.line.as_str()).collect::<String>()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scapy_esp.py");
    let Some(answer) = ask(script, file.path()) else { return };
    let mut count = 0;
    for (case, line) in cases.iter().zip(answer.lines()) {
        let (theirs, sealed) = line.split_once(' ').unwrap();
        let what = format!("{:?} {:?}", case.config.spec, case.config);
        assert_eq!(theirs, hex(&case.padded), "scapy opens ours: {what}");
        let sealed: Vec<u8> =
            (0..sealed.len() / 2).map(|at| u8::from_str_radix(&sealed[2 * at..][..2], 16).unwrap()).collect();
        let ours = opened(&case.config, case.number, &sealed).expect(&what);
        assert_eq!(hex(&ours), hex(&case.clear), "we open scapy's: {what}");
        count += 1;
    }
    assert_eq!(count, cases.len());
}

/// Dummy packets in every algorithm and mode carry zeros, which nobody is to look at, behind the next header 59.
#[test]
fn scapy_finds_nothing_in_dummies() {
    let four: (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let six: (IpAddr, IpAddr) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let (mut lines, mut lens) = (String::new(), Vec::new());
    for algorithm in algorithms() {
        for (src, dst) in [four, six] {
            for mode in [Mode::Tunnel { from: src, to: dst }, Mode::Transport] {
                for (has_udp, is_extended) in [(false, false), (true, false), (false, true)] {
                    let udp = has_udp.then_some(UdpPorts { from: 4500, to: 4500 });
                    let (spec, number) = (algorithm.spec.clone(), if is_extended { 1 << 33 | 7 } else { 7 });
                    let pad_to = if mode == Mode::Transport { 0 } else { 300 * (lens.len() as u16 % 2) };
                    let rules = Rules { pad_to, ..Rules::default() };
                    let config = Config { spi: 0xbeef_0002, mode, udp, spec, is_extended, window: 64, rules };
                    let sa = Sa::new(&config).unwrap();
                    let len = lens.len() * 13 % 1200;
                    let (mut packet, at) = outbound::dummy(&sa, (src, dst), number, (len, 1500)).unwrap();
                    assert!(packet.len() <= 1500);
                    seal(&mut [outbound::part(&mut packet, &sa, at, number)]);
                    outbound::finish(&mut packet, &sa, at);
                    lines += &line((&config, number, is_extended), &algorithm, "dummy", packet.data());
                    lens.push(len.max(pad_to.into()));
                }
            }
        }
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scapy_esp.py");
    let Some(answer) = ask(script, file.path()) else { return };
    let found: Vec<_> = answer.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(found.len(), lens.len());
    for (found, len) in found.into_iter().zip(lens) {
        assert_eq!(found, ("59", &*hex(&vec![0; len])));
    }
}

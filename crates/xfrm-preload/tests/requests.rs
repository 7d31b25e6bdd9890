// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each request of a client that has many outstanding is answered, once, though servers go before they answer; also before they have passed on what a former one left.

mod bench;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bench::{Bench, library};
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, recv,
    socket_with,
};
use testbed::process::Process;

/// Kinds of messages.
const ECHO: u16 = 14;
const GETSADINFO: u16 = 0x23;
const COUNT: usize = 100;
const PATIENCE: Duration = Duration::from_secs(60);

/// Accepts a client, and goes when a message of this kind and number has come. Returns those of all that came.
fn deaf_server(path: &Path, last: (u16, u32)) -> Vec<(u16, u32)> {
    let _ = std::fs::remove_file(path);
    let listener =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 4).unwrap();
    let client: OwnedFd = accept(&listener).unwrap();
    drop(listener);
    let mut heard = Vec::new();
    while heard.last() != Some(&last) {
        let mut datagram = [0; 4096];
        let (len, _) = recv(&client, &mut datagram[..], RecvFlags::empty()).unwrap();
        assert!(len >= 16, "the client has gone after {heard:?}");
        let kind = u16::from_ne_bytes([datagram[4], datagram[5]]);
        // What is to be sent back has an answer's header behind its own.
        let at = if kind == ECHO { 24 } else { 8 };
        heard.push((kind, u32::from_ne_bytes(datagram[at..at + 4].try_into().unwrap())));
    }
    heard
}

#[test]
fn each_request_is_answered_though_servers_go() {
    if testbed::rig::skip_without("each_request_is_answered_though_servers_go", &["/usr/bin/python3"]) {
        return;
    }
    let mut bench = Bench::new();
    bench.stop();
    let mut command = Command::new("/usr/bin/python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/requests.py")).arg(COUNT.to_string());
    command.env("LD_PRELOAD", library()).env("JUNCTOR_XFRM", bench.path());
    let client = Process::spawn(command, "requests.py".to_owned()).unwrap();
    let first = deaf_server(&bench.path(), (GETSADINFO, COUNT as u32 - 1));
    assert!(first.iter().all(|(kind, _)| *kind != ECHO));
    // Nothing has been read when the next server is there. It goes, too.
    let second = deaf_server(&bench.path(), (GETSADINFO, COUNT as u32));
    let mut passed_on: Vec<u32> =
        second.iter().filter(|(kind, _)| *kind == ECHO).map(|(_, number)| *number).collect();
    passed_on.sort_unstable();
    assert_eq!(passed_on, (0..COUNT as u32).collect::<Vec<_>>());
    bench.start();
    let output = client.finish(PATIENCE).unwrap();
    assert!(output.status.success(), "{}{}", output.stdout, output.stderr);
}

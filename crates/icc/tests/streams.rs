// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams of bytes over messages: whole, in order, and started anew when either side is another one.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use junctor_icc::{Domain, Endpoint, Node, NodeId, Stream};

const SURELY: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(1);

fn domain() -> (Domain, Node) {
    let endpoints = [Endpoint::messages(1, "calls", 100, 4), Endpoint::messages(2, "answers", 100, 4)];
    let domain = Domain::serve(NodeId::new(7, 1), &endpoints, None).unwrap();
    let node = domain.node(2).unwrap();
    (domain, node)
}

fn server(node: &Node) -> Stream {
    Stream::server(node.sender("answers").unwrap(), node.receiver("calls").unwrap(), SURELY).unwrap()
}

fn client(node: &Node, patience: Duration) -> std::io::Result<Stream> {
    Stream::client(node.sender("calls").unwrap(), node.receiver("answers").unwrap(), patience)
}

/// Returns what each connection sends, until so many have been served.
fn echo(mut server: Stream, connections: usize) {
    for _ in 0..connections {
        assert!(server.accept(SURELY).unwrap());
        let mut bytes = [0; 64];
        while let Ok(length @ 1..) = server.read(&mut bytes) {
            server.write_all(&bytes[..length]).unwrap();
        }
    }
}

#[test]
fn bytes_arrive_whole_and_in_order() {
    let (_domain, node) = domain();
    let server = server(&node);
    std::thread::scope(|scope| {
        scope.spawn(|| echo(server, 2));
        let sent: Vec<u8> = (0..10_000u32).map(|at| at.to_le_bytes()[at as usize % 2]).collect();
        let mut stream = client(&node, SURELY).unwrap();
        for sent in sent.chunks(333) {
            stream.write_all(sent).unwrap();
            let mut got = vec![0; sent.len()];
            stream.read_exact(&mut got).unwrap();
            assert_eq!(got, sent);
        }
        // One that leaves an answer behind; the next one does not see it.
        stream.write_all(b"left").unwrap();
        drop(stream);
        let mut stream = client(&node, SURELY).unwrap();
        stream.write_all(b"mine").unwrap();
        let mut got = [0; 4];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"mine");
        drop(stream);
        // Its end.
        let mut last = node.sender("calls").unwrap();
        last.send(&[0, 1, 1, 1, 1, 1, 1, 1, 1]).unwrap();
    });
}

#[test]
fn without_a_server_a_client_does_not_wait_for_ever() {
    let (_domain, node) = domain();
    assert_eq!(client(&node, SOON).unwrap_err().kind(), ErrorKind::TimedOut);
    let mut server = server(&node);
    // What it has sent is found by the server, whose answer nobody takes.
    assert!(server.accept(SURELY).unwrap());
    assert!(!server.accept(SOON).unwrap(), "there is no other");
}

#[test]
fn a_client_learns_that_its_server_has_gone() {
    let (_domain, node) = domain();
    let first = server(&node);
    let mut stream = std::thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let mut first = first;
            assert!(first.accept(SURELY).unwrap());
            first
        });
        let stream = client(&node, SURELY).unwrap();
        drop(serving.join().unwrap());
        stream
    });
    assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0, "the connection is over");
}

#[test]
fn a_server_that_takes_over_ends_connections() {
    let (_domain, node) = domain();
    std::thread::scope(|scope| {
        let first = server(&node);
        let serving = scope.spawn(move || {
            let mut first = first;
            assert!(first.accept(SURELY).unwrap());
        });
        let mut stream = client(&node, SURELY).unwrap();
        serving.join().unwrap();
        let second = server(&node);
        assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        drop(stream);
        let serving = scope.spawn(|| echo(second, 1));
        let mut stream = client(&node, SURELY).unwrap();
        stream.write_all(b"again").unwrap();
        let mut got = [0; 5];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"again");
        node.sender("answers").unwrap_err();
        drop(stream);
        node.sender("calls").unwrap().send(&[0, 1, 1, 1, 1, 1, 1, 1, 1]).unwrap();
        serving.join().unwrap();
    });
}

#[test]
fn words_of_a_hostile_peer_are_errors() {
    let (_domain, node) = domain();
    let mut server = server(&node);
    let mut sender = node.sender("calls").unwrap();
    for wrong in [&[][..], &[0], &[0, 1, 2], &[2, 3], &[255; 100]] {
        sender.send(wrong).unwrap();
        assert_eq!(server.accept(SURELY).unwrap_err().kind(), ErrorKind::InvalidData, "{wrong:?}");
    }
    sender.send(&[1, 2, 3]).unwrap();
    assert!(!server.accept(SOON).unwrap(), "data of no connection");
}

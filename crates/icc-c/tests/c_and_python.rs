// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs in C and in Python talk to this process, which serves the domain; and the header is that of the source.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use icc::{Domain, Endpoint, NodeId, Note, Stream, Width};

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const LONG: Option<Duration> = Some(Duration::from_secs(60));

#[test]
fn the_header_is_that_of_the_source() {
    let config = cbindgen::Config::from_file(Path::new(HERE).join("cbindgen.toml")).unwrap();
    let source = |file| Path::new(HERE).join("src").join(file);
    let made = cbindgen::Builder::new().with_config(config).with_src(source("lib.rs"));
    let made = made.with_src(source("blocks.rs")).with_src(source("packets.rs")).generate().unwrap();
    let mut header = Vec::new();
    made.write(&mut header);
    let path = Path::new(HERE).join("include/junctor_icc.h");
    if std::env::var_os("JUNCTOR_BLESS").is_some() {
        std::fs::write(&path, &header).unwrap();
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    assert!(kept == header, "{} is old: run this test with JUNCTOR_BLESS=1", path.display());
}

/// The C library, which cargo builds for this package's tests and puts next to their programs or above.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let found =
        program.ancestors().skip(1).take(2).map(|dir| dir.join("libjunctor_icc_c.so")).find(|f| f.exists());
    found.expect("cargo has built libjunctor_icc_c.so for this test")
}

/// Whether a program is there; if not, a test of it is skipped.
fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let there = there.is_ok_and(|status| status.success());
    if !there {
        println!("skipped: no {program}");
    }
    there
}

/// Sends messages to a program that sends them back.
fn talk(name: &str, command: impl FnOnce(&str) -> Command) {
    let place = format!("@junctor-icc-{name}-{}", std::process::id());
    let endpoints = [
        Endpoint::messages(1, "there", 200, 16),
        Endpoint::messages(2, "back", 200, 16),
        Endpoint::scalars(3, "lengths", Width::Bits16, 64),
        Endpoint::counters(4, "counts", 8),
        Endpoint::packets(5, "frames", 2048, 16),
        Endpoint::packets(6, "answers", 2048, 16),
        Endpoint::blocks(7, "load", 6000),
        Endpoint::blocks(8, "copy", 6000),
    ];
    let domain = Domain::serve(NodeId::new(7, 1), &endpoints, Some(place.as_ref())).unwrap();
    let node = domain.node(1).unwrap();
    let (mut there, mut back) = (node.sender("there").unwrap(), node.receiver("back").unwrap());
    let (mut lengths, counts) =
        (node.scalar_receiver("lengths").unwrap(), node.counter_reader("counts").unwrap());
    // The program reads it and publishes it reversed, before it ends.
    let block: Vec<u8> = (0..5003).map(|at| (at % 251) as u8).collect();
    let mut load = node.block_writer("load").unwrap();
    load.publish(b"the one before").unwrap();
    load.publish(&block).unwrap();
    // The program sends these back when it ends.
    let mut frames: icc::PacketSender = node.packet_sender("frames").unwrap();
    let mut answers = node.packet_receiver("answers").unwrap();
    let notes = [1, 60, 1514].map(|length| Note { timestamp_ns: 1 << 60, kind: 3, paint: length as u8 });
    let packets = [1usize, 60, 1514].map(|length| vec![length as u8; length]);
    for (packet, note) in packets.iter().zip(notes) {
        frames.send(packet, note).unwrap();
    }
    let mut child = command(&place).stdin(Stdio::null()).spawn().unwrap();
    let mut total = 0;
    for length in [1usize, 7, 8, 55, 56, 57, 200, 0] {
        let message: Vec<u8> = (0..length).map(|at| at as u8 ^ length as u8).collect();
        there.send(&message).unwrap();
        while !back.wait(LONG).unwrap() {
            assert!(child.try_wait().unwrap().is_none(), "{name} has ended early");
        }
        let mut buffer = [0; 200];
        assert_eq!(back.receive(&mut buffer), Ok(Some(length)));
        assert_eq!(buffer[..length], message);
        assert_eq!(lengths.receive(), Ok(Some(length as u64)));
        total += length as u64;
    }
    assert!(child.wait().unwrap().success());
    for (packet, note) in packets.iter().zip(notes) {
        let mut buffer = [0; 2048];
        let note = Note { paint: note.paint ^ 255, ..note };
        assert_eq!(answers.receive(&mut buffer), Ok(Some((packet.len(), note))));
        assert_eq!(&buffer[..packet.len()], packet);
    }
    let (mut copy, mut reversed) = (node.block_reader("copy").unwrap(), Vec::new());
    assert_eq!(copy.read(&mut reversed), Ok(1));
    assert!(reversed.iter().rev().eq(&block));
    let mut counted = Vec::new();
    assert_eq!((counts.read(&mut counted), counted), (Ok(8), vec![8, total]));
}

#[test]
fn a_program_in_c_talks_to_this_one() {
    if !has("cc") {
        return;
    }
    let (library, dir) = (library(), tempfile::tempdir().unwrap());
    let program = dir.path().join("echo");
    let built = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", "include", "tests/echo.c", "-o"])
        .arg(&program)
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()))
        .current_dir(HERE)
        .status();
    assert!(built.unwrap().success());
    talk("c", |place| {
        let mut command = Command::new(&program);
        command.arg(place);
        command
    });
}

#[test]
fn a_program_in_python_talks_to_this_one() {
    if !has("python3") {
        return;
    }
    let library = library();
    talk("python", |place| {
        let mut command = Command::new("python3");
        command.args(["-B", "tests/echo.py", place]).current_dir(HERE);
        command.env("PYTHONPATH", "python").env("JUNCTOR_ICC_LIBRARY", &library);
        command
    });
}

/// Calls that a program in Python makes, and what it says of the answers.
const CALLS: &str = r#"
import sys
from junctor_icc import HandlerError, Node, Router
router = Router(Node.connect(sys.argv[1]), "steer")
assert router.read("rt.table") == "", "nothing"
long = "x" * 100_000
assert router.write("rt.add", long) == "two\nlines"
assert router.read("rt.table", "p") == "rt.table p " + long
try:
    router.write("no.such", "1")
    assert False
except HandlerError as why:
    assert (why.code, str(why)) == (510, "No element named 'no'"), why
"#;

/// Answers such a program as a router does: reads, writes and refuses.
fn answer(stream: &mut Stream) {
    stream.write_all(b"Click::ControlSocket/1.3\r\n").unwrap();
    let (mut stream, mut written) = (BufReader::new(stream), String::new());
    let mut line = String::new();
    while stream.read_line(&mut line).is_ok_and(|length| length > 0) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let mut data = vec![0; words[2].parse().unwrap()];
        stream.read_exact(&mut data).unwrap();
        let data = String::from_utf8(data).unwrap();
        let answer = match (&*words[0], &*words[1]) {
            ("READDATA", _) if data.is_empty() => "200 Read handler OK\r\nDATA 0\r\n".to_owned(),
            ("READDATA", name) => {
                let value = format!("{name} {data} {written}");
                format!("200 Read handler OK\r\nDATA {}\r\n{value}", value.len())
            }
            (_, "rt.add") => {
                written = data;
                "200-Write handler OK\r\n200-two\r\n200 lines\r\n".to_owned()
            }
            _ => "510 No element named 'no'\r\n".to_owned(),
        };
        stream.get_mut().write_all(answer.as_bytes()).unwrap();
        line.clear();
    }
}

#[test]
fn a_program_in_python_calls_handlers() {
    if !has("python3") {
        return;
    }
    // The endpoints' messages are short once, so that the program has to find that out.
    for longest in [64, 1 << 16] {
        let place = format!("@junctor-icc-calls-{}", std::process::id());
        let endpoints = [
            Endpoint::messages(1, "steer.calls", longest, 16),
            Endpoint::messages(2, "steer.answers", longest, 16),
        ];
        let domain = Domain::serve(NodeId::new(7, 1), &endpoints, Some(place.as_ref())).unwrap();
        let node = domain.node(1).unwrap();
        let ends = (node.sender("steer.answers").unwrap(), node.receiver("steer.calls").unwrap());
        let mut stream = Stream::server(ends.0, ends.1, LONG.unwrap()).unwrap();
        let mut python = Command::new("python3");
        python.args(["-B", "-c", CALLS, &place]).env("PYTHONPATH", format!("{HERE}/python"));
        let mut child = python.env("JUNCTOR_ICC_LIBRARY", library()).stdin(Stdio::null()).spawn().unwrap();
        assert!(stream.accept(LONG.unwrap()).unwrap());
        answer(&mut stream);
        assert!(child.wait().unwrap().success());
    }
}

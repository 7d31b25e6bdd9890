// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::kernel::event::KernelKind;
use crate::names::ElementName;
use crate::trigger::Fired;
use sync::events::Kind;

fn header() -> Header {
    Header { program: "junctor 0".into(), command: "test".into(), one_in: 1, ..Header::default() }
}

fn event(at: u64) -> Event {
    Event { at, kind: Kind::Batch, thread: 1, subject: 0, other: 0, first: 10, second: 32 }
}

/// A file with something of everything.
fn whole() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &header()).unwrap();
    writer.clock(Pair { cycles: 1000, ns: 500 }).unwrap();
    let element = ElementName { name: "q".into(), class: "Queue".into(), config: String::new() };
    writer.names(&Names { elements: vec![element], ..Names::default() }).unwrap();
    writer.events(&[event(1100), event(1200)]).unwrap();
    writer.events(&[]).unwrap();
    let switch = KernelEvent { at_ns: 600, kind: KernelKind::Switch, cpu: 1, thread: 7, a: 1, b: 9, c: 3 };
    writer.kernel(&[switch]).unwrap();
    writer.commands(&BTreeMap::from([(7, "cc1".into())])).unwrap();
    writer.clock(Pair { cycles: 3000, ns: 1500 }).unwrap();
    writer
        .end(&End {
            at: 3000,
            lost: vec![4],
            lost_kernel: 2,
            why: "told".into(),
            fired: Some(Fired { at: 2500, ..Fired::default() }),
        })
        .unwrap();
    let written = writer.written();
    assert_eq!(written, bytes.len() as u64);
    bytes
}

#[test]
fn what_is_written_is_read() {
    let recording = Recording::read(&whole()).unwrap();
    assert_eq!((recording.header, recording.events), (header(), vec![event(1100), event(1200)]));
    assert_eq!((recording.names.len(), recording.pairs.len(), recording.unknown), (1, 2, 0));
    let kernel = recording.kernel[0];
    assert_eq!((kernel.at_ns, kernel.cpu, kernel.thread, kernel.b, kernel.c), (600, 1, 7, 9, 3));
    assert_eq!(recording.commands[&7], "cc1");
    let end = recording.end.unwrap();
    assert_eq!((end.lost, end.lost_kernel, end.fired.map(|f| f.at)), (vec![4], 2, Some(2500)));
}

/// A router that is killed, or a full disk, may cut a file anywhere.
#[test]
fn a_file_that_was_cut_off_is_read_as_far_as_it_goes() {
    let bytes = whole();
    let mut events = Vec::new();
    for len in 0..bytes.len() {
        match Recording::read(&bytes[..len]) {
            Ok(recording) => {
                assert!(recording.end.is_none());
                events.push(recording.events.len());
            }
            Err(FileError::Foreign) => assert!(len < 8),
            Err(FileError::Empty) => assert!(events.is_empty()),
            Err(other) => panic!("{len}: {other}"),
        }
    }
    assert!(events.is_sorted() && events.contains(&0) && events.last() == Some(&2));
}

#[test]
fn other_files_are_refused_with_what_is_wrong() {
    assert_eq!(Recording::read(b"").unwrap_err(), FileError::Foreign);
    assert_eq!(Recording::read(b"\x7fELF and so on").unwrap_err(), FileError::Foreign);
    let mut bytes = whole();
    bytes[8] = 9;
    assert_eq!(Recording::read(&bytes).unwrap_err(), FileError::Version(9));
    let mut bytes = whole();
    let at = bytes.windows(4).position(|w| w == b"EVTS").unwrap();
    bytes[at + 4] -= 1;
    let why = Recording::read(&bytes).unwrap_err().to_string();
    assert!(why.contains("section EVTS at byte") && why.contains("63 bytes"), "{why}");
    // A tag that this program does not know is passed over.
    let mut bytes = whole();
    bytes[at..at + 4].copy_from_slice(b"NEWS");
    assert_eq!(Recording::read(&bytes).unwrap().events.len(), 0);
}

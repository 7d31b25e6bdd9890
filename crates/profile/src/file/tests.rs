// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::kernel::event::KernelKind;
use crate::names::ElementName;
use crate::trigger::Fired;
use sync::events::EventKind;

fn header() -> Header {
    Header { program: "junctor 0".into(), command: "test".into(), one_in: 1, ..Header::default() }
}

fn event(at: u64) -> Event {
    Event { at, kind: EventKind::Batch, thread: 1, subject: 0, other: 0, first: 10, second: 32 }
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
            over_kernel: 0,
            no_room: 0,
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
                assert!(recording.end.is_none() || bytes.len() - len <= SUM_BYTES);
                assert!(recording.damaged.is_empty());
                events.push(recording.events.len());
            }
            Err(FileError::Foreign) => assert!(len < 8),
            Err(FileError::Empty) => assert!(events.is_empty()),
            Err(other) => panic!("{len}: {other}"),
        }
    }
    assert!(events.is_sorted() && events.contains(&0) && events.last() == Some(&2));
}

/// The same file as it was before sections had sums.
fn without_sums(bytes: &[u8]) -> Vec<u8> {
    let (mut all, mut rest) = (bytes[..12].to_vec(), &bytes[12..]);
    while let Some((tag, len, _)) = section(rest) {
        let (whole, next) = rest.split_at(8 + len);
        all.extend_from_slice(if tag == SUM { &[] } else { whole });
        rest = next;
    }
    all
}

#[test]
fn files_without_sums_are_read() {
    let (with, without) =
        (Recording::read(&whole()).unwrap(), Recording::read(&without_sums(&whole())).unwrap());
    assert_eq!((with.events, with.kernel, with.end), (without.events, without.kernel, without.end));
    assert!(without.damaged.is_empty() && with.damaged.is_empty());
}

/// If any byte behind the header is changed, the damage is reported, and nothing of the damaged part is believed.
#[test]
fn damaged_parts_are_passed_over_and_named() {
    let good = whole();
    let intact = Recording::read(&good).unwrap();
    let begin = good.windows(4).position(|w| w == b"CLCK").unwrap();
    for at in begin..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x20;
        let read = Recording::read(&bytes).unwrap();
        let cut_off = read.end.is_none();
        // The sum of the very last section may be taken for that of none.
        assert!(!read.damaged.is_empty() || cut_off || read.end == intact.end, "byte {at}");
        assert!(read.events.iter().all(|e| intact.events.contains(e)), "byte {at}");
        assert!(read.kernel.iter().all(|e| intact.kernel.contains(e)), "byte {at}");
    }
    let events = good.windows(4).position(|w| w == b"EVTS").unwrap();
    let mut bytes = good.clone();
    bytes[events + 10] ^= 1;
    let read = Recording::read(&bytes).unwrap();
    assert_eq!(read.damaged, [Damage { at: events, bytes: 8 + 64 }]);
    assert_eq!((read.events, read.kernel, read.end), (vec![], intact.kernel, intact.end));
    let mut bytes = good;
    bytes[20] ^= 1;
    let why = Recording::read(&bytes).unwrap_err().to_string();
    assert!(why.contains("section HEAD at byte 12: it is not as it was written"), "{why}");
}

#[test]
fn the_last_events_give_way_where_there_is_no_room() {
    let path = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::new(path.reopen().unwrap(), &header()).unwrap();
    writer.clock(Pair { cycles: 1000, ns: 500 }).unwrap();
    let head = writer.written();
    for at in 0..10 {
        writer.events(&[event(at), event(at)]).unwrap();
    }
    let each = (writer.written() - head) / 10;
    writer.clock(Pair { cycles: 2000, ns: 900 }).unwrap();
    // Somebody else's bytes, as of a section that had no room.
    writer.out.write_all(b"EVTS").unwrap();
    assert_eq!(writer.give_way(3 * each).unwrap(), (6, 0), "what lies behind them goes first");
    writer.end(&End { at: 3000, no_room: 6, ..End::default() }).unwrap();
    let bytes = std::fs::read(path.path()).unwrap();
    assert_eq!(bytes.len() as u64, writer.written());
    let recording = Recording::read(&bytes).unwrap();
    assert_eq!((recording.events.len(), recording.pairs.len(), recording.damaged.len()), (14, 1, 0));
    assert_eq!(recording.end.map(|end| end.no_room), Some(6));
    // There is no more than all.
    let mut writer = Writer::new(path.reopen().unwrap(), &header()).unwrap();
    writer.events(&[event(1)]).unwrap();
    assert_eq!(writer.give_way(1 << 30).unwrap(), (1, 0));
}

#[test]
fn other_files_are_refused_with_what_is_wrong() {
    assert_eq!(Recording::read(b"").unwrap_err(), FileError::Foreign);
    assert_eq!(Recording::read(b"\x7fELF and so on").unwrap_err(), FileError::Foreign);
    let mut bytes = whole();
    bytes[8] = 9;
    assert_eq!(Recording::read(&bytes).unwrap_err(), FileError::Version(9));
    let mut bytes = without_sums(&whole());
    let at = bytes.windows(4).position(|w| w == b"EVTS").unwrap();
    bytes[at + 4] -= 1;
    let why = Recording::read(&bytes).unwrap_err().to_string();
    assert!(why.contains("section EVTS at byte") && why.contains("63 bytes"), "{why}");
    // A tag that this program does not know is passed over.
    let mut bytes = without_sums(&whole());
    bytes[at..at + 4].copy_from_slice(b"NEWS");
    assert_eq!(Recording::read(&bytes).unwrap().events.len(), 0);
}

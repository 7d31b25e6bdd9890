// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two kernels over one file: this process, and itself again inside a User Mode Linux guest, which has the file as `/dev/mmapper`.

#[path = "../../testbed/src/uml/library.rs"]
mod library;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use junctor_icc::{ChannelError, Endpoint, FileRegion, NodeId, Width};

const SIZE: usize = 256 << 10;
const ROUNDS: u32 = 300;
/// Says in the guest's environment that it is one.
const GUEST: &str = "JUNCTOR_ICC_TEST_GUEST";
/// A guest that is not there by then never will be.
const PATIENCE: Duration = Duration::from_secs(180);

fn endpoints() -> [Endpoint; 4] {
    [
        Endpoint::messages(1, "there", 1500, 32),
        Endpoint::messages(2, "back", 1500, 32),
        Endpoint::scalars(3, "lengths", Width::Bits16, 64),
        Endpoint::counters(4, "counts", 8),
    ]
}

/// What runs in the guest: sends each message back until an empty one comes.
#[test]
#[ignore = "a part of the other test"]
fn the_guest() {
    if std::env::var_os(GUEST).is_none() {
        return;
    }
    let region = FileRegion::open("/dev/mmapper", SIZE).unwrap();
    let (mut there, mut back) = (region.receiver("there").unwrap(), region.sender("back").unwrap());
    let (mut lengths, mut counts) =
        (region.scalar_sender("lengths").unwrap(), region.counter_writer("counts").unwrap());
    let (mut buffer, mut count) = ([0; 1500], [0u64; 2]);
    loop {
        there.beat();
        back.beat();
        there.wait(Some(Duration::from_millis(100))).unwrap();
        let Some(length) = there.receive(&mut buffer).unwrap() else { continue };
        count = [count[0] + 1, count[1] + length as u64];
        counts.publish(&count).unwrap();
        lengths.send(length as u64).unwrap();
        back.send(&buffer[..length]).unwrap();
        if length == 0 {
            break;
        }
    }
}

/// A guest, which is ended with the test.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        // A child that nobody has waited for, so the number is still its own; it ends its own helpers.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

impl Guest {
    /// Starts a guest with the file as its shared memory, which runs this program's [`the_guest`] and halts.
    fn start(dir: &Path, file: &Path) -> Guest {
        let program = std::env::current_exe().unwrap();
        let init = dir.join("init");
        let script = format!(
            "#!/bin/sh\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin\nmount -t proc proc /proc\n\
             {GUEST}=1 '{}' --exact the_guest --include-ignored --nocapture\npoweroff -f\n",
            program.display()
        );
        std::fs::write(&init, script).unwrap();
        std::fs::set_permissions(&init, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new("linux.uml");
        if let Some(library) = library::make(dir).unwrap() {
            command.env("LD_PRELOAD", library);
        }
        let child = command
            .args([
                "mem=128M",
                "root=/dev/root",
                "rootfstype=hostfs",
                "rootflags=/",
                "rw",
                "quiet",
                "con=null",
            ])
            .arg(format!("init={}", init.display()))
            .arg(format!("iomem=mmapper,{}", file.display()))
            .arg(format!("uml_dir={}", dir.display()))
            .arg("con0=null,fd:2")
            .stdin(Stdio::null())
            .spawn();
        Guest(child.unwrap())
    }

    fn assert_alive(&mut self, since: Instant) {
        assert!(self.0.try_wait().unwrap().is_none(), "the guest has ended early");
        assert!(since.elapsed() < PATIENCE, "the guest does not answer");
    }
}

#[test]
fn another_kernel_talks_to_this_one() {
    let there =
        Command::new("linux.uml").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        println!("skipped: no User Mode Linux (apt-get install user-mode-linux)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    let region = FileRegion::make(file.path(), SIZE, NodeId::new(7, 1), &endpoints()).unwrap();
    let (mut there, mut back) = (region.sender("there").unwrap(), region.receiver("back").unwrap());
    let (mut lengths, counts) =
        (region.scalar_receiver("lengths").unwrap(), region.counter_reader("counts").unwrap());
    let (started, mut guest) = (Instant::now(), Guest::start(dir.path(), file.path()));
    while !back.peer().present {
        guest.assert_alive(started);
        let _ = back.wait(Some(Duration::from_millis(100))).unwrap();
    }
    let beat = back.peer_beat();
    let mut total = 0;
    for round in 0..ROUNDS {
        let length = if round + 1 == ROUNDS { 0 } else { (round as usize * 37) % 1500 + 1 };
        let message: Vec<u8> = (0..length).map(|at| (at as u32 ^ round) as u8).collect();
        assert_eq!(there.send(&message), Ok(()));
        while !back.wait(Some(Duration::from_millis(100))).unwrap() {
            guest.assert_alive(started);
        }
        let mut buffer = [0; 1500];
        assert_eq!(back.receive(&mut buffer), Ok(Some(length)));
        assert!(buffer[..length] == message, "message {round}");
        assert_eq!(lengths.receive(), Ok(Some(length as u64)));
        total += length as u64;
    }
    assert!(back.peer_beat() > beat, "the guest shows that it lives");
    let mut counted = Vec::new();
    assert_eq!((counts.read(&mut counted), counted), (Ok(ROUNDS.into()), vec![ROUNDS.into(), total]));
    assert_eq!(back.receive(&mut [0; 1500]), Ok(None));
    assert_ne!(there.send(b"nobody is there any more"), Err(ChannelError::Broken));
}

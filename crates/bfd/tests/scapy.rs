// SPDX-License-Identifier: MIT OR Apache-2.0
//! scapy reads the packets that we emit; it must find the same fields, and build the same bytes from them.
//!
//! Needs a Python that can import scapy: `python3`, or the one that `JUNCTOR_PYTHON` names. Without it the test says so and
//! passes.

use std::process::Command;

use junctor_bfd::{Diagnostic, Flags, Repr, State};

const SCRIPT: &str = r#"
import sys
try:
    from scapy.contrib.bfd import BFD
except ImportError as error:
    sys.exit("skip: " + str(error))
for word in sys.argv[1:]:
    read = BFD(bytes.fromhex(word))
    names = ["diag", "sta", "flags", "detect_mult", "my_discriminator", "your_discriminator", "min_tx_interval",
             "min_rx_interval", "echo_rx_interval"]
    fields = {name: int(getattr(read, name)) for name in names}
    print(*fields.values(), int(read.version), int(read.len), bytes(BFD(**fields)).hex())
"#;

fn packets() -> Vec<Repr> {
    let one = |number: u32| Repr {
        diagnostic: Diagnostic((number % 9) as u8),
        state: State::ALL[number as usize % 4],
        flags: [
            Flags::default(),
            Flags::POLL,
            Flags::FINAL,
            Flags::DEMAND | Flags::CONTROL_PLANE_INDEPENDENT,
        ][number as usize / 4 % 4],
        detect_mult: 1 + number as u8,
        my_discriminator: number.wrapping_mul(0x9e37_79b9) | 1,
        your_discriminator: number.wrapping_mul(0x85eb_ca6b),
        desired_min_tx_us: number * 1000,
        required_min_rx_us: number * 10_000 + 7,
        required_min_echo_rx_us: number << 24,
    };
    (0..64).map(one).collect()
}

#[test]
fn agrees_with_scapy() {
    let hex = |packet: &Repr| {
        let mut bytes = [0; 24];
        packet.emit(&mut bytes).unwrap();
        bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()
    };
    let packets = packets();
    let python = std::env::var("JUNCTOR_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = match Command::new(&python).args(["-c", SCRIPT]).args(packets.iter().map(hex)).output() {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: {python} does not start: {error}"),
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.starts_with("skip: ") {
        return eprintln!("skipped: {stderr}");
    }
    assert!(output.status.success(), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = packets.iter().map(|packet| {
        let Repr {
            diagnostic,
            state,
            flags,
            detect_mult,
            my_discriminator: my,
            your_discriminator: your,
            ..
        } = packet;
        let (tx, rx) = (packet.desired_min_tx_us, packet.required_min_rx_us);
        let (first, echo) = ([diagnostic.0, *state as u8, flags.0], packet.required_min_echo_rx_us);
        let [diagnostic, state, flags] = first;
        format!(
            "{diagnostic} {state} {flags} {detect_mult} {my} {your} {tx} {rx} {echo} 1 24 {}",
            hex(packet)
        )
    });
    assert_eq!(text.lines().map(str::to_owned).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

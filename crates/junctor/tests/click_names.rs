// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program called by the names of Click's own programs.

use std::path::Path;
use std::process::Command;

/// What the program prints to standard output and error when it is called so in this directory, and its status.
fn call(directory: &Path, name: &str, args: &[&str]) -> (String, String, i32) {
    let path = directory.join(name);
    if !path.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_junctor"), &path).unwrap();
    }
    let output = Command::new(&path).args(args).current_dir(directory).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap_or(-1))
}

#[test]
fn tools_write_configurations() {
    let dir = tempfile::tempdir().unwrap();
    let text = "elementclass Half { input -> Strip(14) -> output }\nIdle -> Half -> Discard;";
    let flat = "Idle@1 :: Idle;\nDiscard@3 :: Discard;\nHalf@2/Strip@1 :: Strip(14);\n\nIdle@1 -> Half@2/Strip@1\n    -> Discard@3;\n";
    for tool in ["click-flatten", "click-align"] {
        assert_eq!(call(dir.path(), tool, &["-e", text]), (flat.into(), String::new(), 0));
        assert_eq!(call(dir.path(), tool, &["-e", text, "-o", "out"]), (String::new(), String::new(), 0));
        assert_eq!(std::fs::read_to_string(dir.path().join("out")).unwrap(), flat);
    }
    let (page, _, status) = call(dir.path(), "click-pretty", &["-e", text]);
    assert!(status == 0 && page.contains("-&gt; Strip(14)") && page.ends_with("</html>\n"), "{page}");
    let (_, why, status) = call(dir.path(), "click-flatten", &["-e", "a -> b"]);
    assert_eq!((why.lines().next(), status), (Some("config:1: undeclared element 'a'"), 1));
    assert_eq!(call(dir.path(), "click-flatten", &["--nonsense"]).2, 1);
    assert_eq!(call(dir.path(), "click-flatten", &["--help"]).2, 0);
}

#[test]
fn routers_are_combined_and_taken_apart() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x"), "FromDevice(eth0) -> Queue -> ToDevice(eth1);").unwrap();
    std::fs::write(dir.path().join("y"), "FromDevice(eth1) -> Queue -> ToDevice(eth0);").unwrap();
    let args = ["a=x", "b=y", "a.eth1=b.eth1", "-l", "b.eth0=a.eth0", "-o", "both"];
    assert_eq!(call(dir.path(), "click-combine", &args), (String::new(), String::new(), 0));
    let both = std::fs::read_to_string(dir.path().join("both")).unwrap();
    assert!(both.contains("b/Queue@2 :: Queue;") && both.contains("link2 :: RouterLink("), "{both}");
    let (one, _, status) = call(dir.path(), "click-uncombine", &["both", "b"]);
    assert!(
        status == 0 && one.contains("FromDevice@1 :: FromDevice(eth1);") && !one.contains("link"),
        "{one}"
    );
    let (_, why, status) = call(dir.path(), "click-uncombine", &["both", "c"]);
    assert_eq!((why.as_str(), status), ("click-uncombine: no component named 'c'\n", 1));
    let (_, why, status) = call(dir.path(), "click-combine", &["a=x", "a.eth1=b.eth1"]);
    assert_eq!((why.as_str(), status), ("click-combine: no router named 'b'\n", 1));
    let own = call(dir.path(), "junctor", &["combine", "a=x", "b=y", "a.eth1=b.eth1", "-l", "b.eth0=a.eth0"]);
    assert_eq!(own.0, both);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Structures lie in memory as the C header has them.

use std::fmt::Write as _;
use std::process::Command;

use xfrm::layout::SHAPES;

#[test]
fn structures_are_those_of_the_c_header() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let mut source = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <linux/xfrm.h>\n\
         #define LEN(s, f) sizeof(((struct s *)0)->f)\nint main(void) {\n",
    );
    let mut expected = String::new();
    for (name, len, fields) in SHAPES {
        let _ = writeln!(source, "printf(\"{name} %zu\\n\", sizeof(struct {name}));");
        let _ = writeln!(expected, "{name} {len}");
        for (field, offset, len) in *fields {
            let field = field.trim_start_matches("r#");
            let _ = writeln!(
                source,
                "printf(\"{name}.{field} %zu %zu\\n\", offsetof(struct {name}, {field}), LEN({name}, {field}));"
            );
            let _ = writeln!(expected, "{name}.{field} {offset} {len}");
        }
    }
    source.push_str("return 0; }\n");
    std::fs::write(at("shapes.c"), &source).unwrap();
    let compiled = Command::new("cc").arg("-o").arg(at("shapes")).arg(at("shapes.c")).output();
    let Ok(compiled) = compiled else {
        println!("structures_are_those_of_the_c_header: skipped: no cc");
        return;
    };
    let why = String::from_utf8_lossy(&compiled.stderr);
    if why.contains("linux/xfrm.h: No such file") {
        println!("structures_are_those_of_the_c_header: skipped: no linux/xfrm.h");
        return;
    }
    assert!(compiled.status.success(), "{why}");
    let output = Command::new(at("shapes")).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each construct of the language comes to, shown as the flat graph it's printed as.

use junctor_lang::{Options, load_str, render};

fn flat(text: &str, options: &Options) -> String {
    let parsed = load_str("test", text, options);
    match &parsed.graph {
        Some(graph) => graph.to_click(),
        None => render(&parsed.diagnostics, &parsed.sources, false),
    }
}

/// The flat graph with each chain on one line, and without blank lines.
fn lines(flat: &str) -> Vec<String> {
    let flat = flat.replace("\n    ->", " ->");
    flat.lines().map(|l| l.trim().to_string()).filter(|l| !l.is_empty()).collect()
}

#[track_caller]
fn check(text: &str, want: &str) {
    assert_eq!(lines(&flat(text, &Options::default())), lines(want), "for:\n{text}");
}

/// The connections alone, for cases where the elements are plain.
#[track_caller]
fn check_wires(text: &str, want: &str) {
    let flat = flat(text, &Options::default());
    let got: Vec<String> = lines(&flat).into_iter().filter(|l| !l.contains("::")).collect();
    assert_eq!(got.join(" "), want, "for:\n{text}\ngiving:\n{flat}");
}

/// Configuration strings after substitution, in the order of the elements.
#[track_caller]
fn check_configs(text: &str, want: &[&str]) {
    let parsed = load_str("test", text, &Options::default());
    let Some(graph) = &parsed.graph else {
        panic!("{}", render(&parsed.diagnostics, &parsed.sources, false));
    };
    let got: Vec<&str> = graph.elements.iter().map(|e| e.config.as_str()).collect();
    assert_eq!(got, want, "for:\n{text}");
}

#[test]
fn declarations() {
    check("", "");
    check(";;;", "");
    check("a :: A", "a :: A;");
    check("a :: A();", "a :: A;");
    check("a :: A(1, 2) b :: B", "a :: A(1, 2); b :: B;".replace("; ", ";\n").as_str());
    check("a, b, c :: A(x);", "a :: A(x);\nb :: A(x);\nc :: A(x);");
    check("a :: A, b :: B(1)", "a :: A;\nb :: B(1);");
    check("a/b@2 :: A", "a/b@2 :: A;");
    check("A; B(x)", "A@1 :: A;\nB@2 :: B(x);");
    check("a :: lower; b :: lower(1)", "a :: lower;\nb :: lower(1);");
    check("/* c */ a // x\n :: /* y */ A // z", "a :: A;");
    check("a :: A\r\nb :: B\rc :: C", "a :: A;\nb :: B;\nc :: C;");
    check("_ :: A; @ :: B", "_ :: A;\n@ :: B;");
}

#[test]
fn chains() {
    check("a :: A -> b :: B", "a :: A;\nb :: B;\na -> b;");
    check("A -> B", "A@1 :: A;\nB@2 :: B;\nA@1 -> B@2;");
    check("a :: A; b :: B; a [1] -> [2] b", "a :: A;\nb :: B;\na [1] -> [2] b;");
    check_wires("a, b, c :: N; a -> b -> c -> a", "a -> b -> c -> a;");
    check_wires("a, b :: N; a -> [1] b [2] -> a", "a -> [1] b [2] -> a;");
    check_wires("a, b :: N; a -> b a [1] -> [1] b", "a -> b; a [1] -> [1] b;");
    check_wires("a :: N -> a", "a -> a;");
    check_wires("a, b :: N; a -> b; a -> b;", "a -> b;");
    check_wires("a :: A -> b :: B\nc :: C -> b", "a -> b; c -> b;");
    check_wires("a :: A [0x10] -> [010] b :: B", "a [16] -> [8] b;");
}

#[test]
fn anonymous_elements_are_numbered_by_position() {
    check_wires("A -> B -> A", "A@1 -> B@2 -> A@3;");
    check_wires("x :: X; A -> x -> B", "A@2 -> x -> B@3;");
    check_wires("A@2 :: X; A -> A@2", "A@3 -> A@2;");
    check_wires("A -> A@1 :: X", "A@2 -> A@1;");
    check_wires("A -> { input -> B -> output } -> C", "A@1 -> @2/B@1 -> C@3;");
    check_wires("A -> ( -> B -> ) -> C", "A@1 -> B@5 -> C@6;");
    check_wires("A, B -> C", "A@1 -> C@3; B@2 -> C@3;");
}

#[test]
fn port_lists() {
    check_wires("a, b, c :: N; a [0, 1] -> b", "a -> b; a [1] -> b;");
    check_wires("a, b, c :: N; a [0-2] -> b", "a -> b; a [1] -> b; a [2] -> b;");
    check_wires("a, b, c :: N; a -> b, c", "a -> b; a -> c;");
    check_wires("a, b, c :: N; a, b [1] -> [2] c", "a -> [2] c; b [1] -> [2] c;");
    check_wires("a, b, c :: N; a [0, 1] => b, c", "a -> b; a [1] -> c;");
    check_wires("a, b, c :: N; a => b, c", "a -> b; a [1] -> c;");
    check_wires("a, b, c :: N; a, b => c", "a -> c; b -> [1] c;");
    check_wires("a, b, c :: N; a [] => b, c, b", "a -> b; a [1] -> c; a [2] -> b;");
    check_wires("a, b, c :: N; a [3-] => b, c", "a [3] -> b; a [4] -> c;");
    check_wires("a, b, c :: N; a [3,] => b, c", "a [3] -> b; a [4] -> c;");
    check_wires("a, b, c :: N; a, b, a [1] => [1, 5-] c", "a -> [1] c; a [1] -> [6] c; b -> [5] c;");
    check_wires("a, b, c :: N; a => b, c => a [5] -> b", "a -> b -> a [1] -> c -> [1] a [5] -> b;");
    check_wires(
        "c :: C; c[0], c[1], c[2] => Paint(0), Paint(1), Paint(2) -> next :: N",
        "c -> Paint@2 -> next; c [1] -> Paint@3 -> next; c [2] -> Paint@4 -> next;",
    );
}

#[test]
fn groups() {
    check_wires("a :: A -> (-> b :: B -> c :: C ->) -> d :: D", "a -> b -> c -> d;");
    check_wires("a :: A -> (input -> b :: B -> output) -> d :: D", "a -> b -> d;");
    check_wires("a :: A; a -> ( -> b :: B; a [1] -> ) -> d :: D", "a -> b; a [1] -> d;");
    check_wires(
        "a :: A => (-> b :: B -> ; [1] -> c :: C -> [1]) => d :: D",
        "a -> b -> d; a [1] -> c -> [1] d;",
    );
    check_wires(
        "a :: A => ( => b :: B, c :: C => output, [1] output ) => d :: D",
        "a -> b -> d; a [1] -> c -> [1] d;",
    );
    check_wires("a :: A -> ( -> ( -> b :: B -> ) -> ) -> c :: C", "a -> b -> c;");
    check_wires("a :: A -> ( -> ) -> c :: C", "a -> c;");
    check_wires("a :: A; b :: B -> (=> x :: X, y :: Y => [0], [1]) -> c :: C", "b -> x -> c; b -> y -> c;");
}

#[test]
fn compounds() {
    check_wires("a :: A -> { -> b :: B -> } -> c :: C", "a -> @2/b -> c;");
    check_wires("x :: { input -> b :: B -> output }; a :: A -> x -> c :: C", "a -> x/b -> c;");
    check_wires(
        "elementclass X { -> b :: B -> } a :: A -> x :: X -> y :: X -> c :: C",
        "a -> c;".replace("a -> c;", "a -> x/b -> y/b -> c;").as_str(),
    );
    check_wires(
        "elementclass X { input [1] -> b :: B -> [1] output; input -> output }
         a :: A [1] -> [1] x :: X [1] -> [1] c :: C; a -> x -> c",
        "a -> c; a [1] -> x/b -> [1] c;",
    );
    check_wires("elementclass P { -> } a :: A -> P -> P -> P -> c :: C", "a -> c;");
    check_wires(
        "elementclass Fan { input -> output; input -> [1] output } a :: A -> f :: Fan -> c :: C; f [1] -> d :: D",
        "a -> c; a -> d;",
    );
    check_wires(
        "elementclass In { -> b :: B -> } elementclass Out { -> i :: In -> b :: B -> } a :: A -> o :: Out -> c :: C",
        "a -> o/i/b -> o/b -> c;",
    );
    // A circle of tunnels carries nothing.
    check("elementclass P { -> } a :: P -> a", "");
    check("x :: X; elementclass X { -> Y -> }", "x :: X;");
}

#[test]
fn flat_order_is_that_of_click() {
    check(
        "elementclass X { -> b :: B -> c :: { -> d :: D -> } -> e :: E -> }
         a :: A -> x :: X -> y :: X -> z :: Z",
        "a :: A; z :: Z; x/b :: B; x/e :: E; x/c/d :: D; y/b :: B; y/e :: E; y/c/d :: D;
         a -> x/b -> x/c/d -> x/e -> y/b -> y/c/d -> y/e -> z;"
            .replace("; ", ";\n")
            .as_str(),
    );
}

#[test]
fn classes_are_scoped_by_place() {
    check(
        "elementclass A { -> B -> } elementclass B { -> C -> } Idle -> a :: A -> Discard",
        "Idle@1 :: Idle;\nDiscard@3 :: Discard;\na/B@1 :: B;\nIdle@1 -> a/B@1 -> Discard@3;",
    );
    check(
        "elementclass Queue { -> Queue -> Shaper(1) -> } Idle -> q :: Queue -> Discard",
        "Idle@1 :: Idle;\nDiscard@3 :: Discard;\nq/Queue@1 :: Queue;\nq/Shaper@2 :: Shaper(1);
         Idle@1 -> q/Queue@1 -> q/Shaper@2 -> Discard@3;",
    );
    check(
        "elementclass A B; a :: A(1); elementclass B { Null }; b :: B; c :: A",
        "a :: B(1);\nc :: B;\nb/Null@1 :: Null;",
    );
    check("elementclass X { elementclass Y { Z }; y :: Y } x :: X; y :: Y", "y :: Y;\nx/y/Z@1 :: Z;");
    check("elementclass E { A } elementclass E { B } e :: E", "e/B@1 :: B;");
}

#[test]
fn overloads() {
    let text = "elementclass X { -> One -> || $a | -> Arg($a) -> || input [0] -> Two -> output; input [1] -> Two -> [1] output }
         a :: A -> x :: X -> b :: B; a [1] -> y :: X(7) -> [1] b; a [2] -> z :: X -> [2] b; a [3] -> [1] z [1] -> [3] b";
    check_wires(
        text,
        "a -> x/One@1 -> b; a [1] -> y/Arg@1 -> [1] b; a [2] -> z/Two@1 -> [2] b; a [3] -> z/Two@2 -> [3] b;",
    );
    check(
        "elementclass X { $a | A($a) || ... } x :: X(1); y :: X; z :: X(1, 2)",
        "y :: X;\nz :: X(1, 2);\nx/A@1 :: A(1);",
    );
    check(
        "elementclass X { A } elementclass X { $a | B($a) || ... } elementclass X { $a, $b | C($b) || ... }
           x :: X; y :: X(1); z :: X(1, 2)",
        "x/A@1 :: A;\ny/B@1 :: B(1);\nz/C@1 :: C(2);",
    );
    check(
        "elementclass Foo { $p, K $k, __REST__ $r | A($p, $k, $r) } f :: Foo(1, K 2 3, 4, 5)",
        "f/A@1 :: A(1, 2 3, 4, 5);",
    );
    check("elementclass Foo { K $k, L $l | A($k, $l) } f :: Foo(L 1, K 2)", "f/A@1 :: A(2, 1);");
    check("elementclass Foo { __REST__ $r | A($r) } f :: Foo", "f/A@1 :: A;");
    check("x :: { $a | A($a) }(5)", "x/A@1 :: A(5);");
    check("{ $a | A($a) || $a, $b | B($b) }(5, 6)", "@1/B@1 :: B(6);");
    check_wires(
        "elementclass X { -> A -> || input -> B } Idle -> X; Idle -> X -> Discard",
        "Idle@1 -> X@2/B@1; Idle@3 -> X@4/A@1 -> Discard@5;",
    );
}

#[test]
fn overloads_are_tried_in_order() {
    check(
        "elementclass F { $a, $b | -> P(1) -> || $a, __REST__ $b | -> P(2) -> || $a, TWO $b, __REST__ $c | -> P(3) -> }
         S -> F(A) -> f :: F(A, TWO B)
         elementclass F { $a, $b | -> P(4) -> || ... }
         f -> F(A, B) -> F(A, B, C) -> Discard",
        "S@1 :: S;\nDiscard@6 :: Discard;
         F@2/P@1 :: P(2);\nf/P@1 :: P(1);\nF@4/P@1 :: P(4);\nF@5/P@1 :: P(2);
         S@1 -> F@2/P@1 -> f/P@1 -> F@4/P@1 -> F@5/P@1 -> Discard@6;",
    );
}

#[test]
fn the_flat_text_is_laid_out_as_click_does() {
    let text = "require(compact_config) a :: A(x) -> b :: B -> c :: C; b [1] -> [2] c";
    let want =
        "require(compact_config);\n\na :: A(x);\nb :: B;\nc :: C;\n\na -> b\n    -> c;\nb [1] -> [2] c;\n";
    assert_eq!(flat(text, &Options::default()), want);
}

#[test]
fn words_of_variables() {
    check_configs(
        "elementclass Foo { $a | P(\"$a\") P(\"${a[0]}\") P(\"${a[2]}\") P(\"${a[3]}\") }
         elementclass Bar { $a, $n | P(\"${a[$n]}\") }
         elementclass Baz { $a | Bar(${a[1]} ${a[0]}, ${a[2]}) }
         Foo(A B C) Bar(D E F, 2) Baz(G H 1) Baz(I J 0)",
        &["\"A B C\"", "\"A\"", "\"C\"", "\"\"", "\"F\"", "\"G\"", "\"J\""],
    );
    check_configs(
        "define($j sub) Script(set i add, print $($i 3 4), print $($(s.run).name), print $($j 8 5), print $($j.run))",
        &["set i add, print $($i 3 4), print $($(s.run).name), print $(sub 8 5), print $(sub.run)"],
    );
}

#[test]
fn variables() {
    check_configs("define($a 1) X($a)", &["1"]);
    check_configs("X($a) define($a 1, $b 2) Y($b $a)", &["1", "2 1"]);
    check_configs("define($a $b, $b 3) X($a)", &["3"]);
    check_configs("X($a, ${a-7}, ${b[0]})", &["$a, 7, ${b[0]}"]);
    check_configs("define($a x y z) X(${a[1]})", &["y"]);
    check_configs("define($a) X(<$a>)", &["<>"]);
    check_configs(
        "define($a 1) elementclass C { define($b $a$c) X($b) || $c | define($b $a$c) X($b) } C(2); C",
        &["12", "1$c"],
    );
    check_configs("elementclass C { $x | D($x) elementclass D { $y | X($y $x) } D($x) } C(1)", &["1", "1 1"]);
    check_configs("define($x out) elementclass C { X($x) } elementclass D { $x | C } D(in)", &["out"]);
    check_configs("define($x out) elementclass D { $x | elementclass C { X($x) } C } D(in)", &["in"]);
    check_configs("define($s 'a b') X(\"$s\", '$s', $s)", &["\"'a b'\", '$s', 'a b'"]);
    check_configs("elementclass C { $x | X($x) } C(\"a, b\")", &["\"a, b\""]);
    check_configs("Script(set x 1, print $x $(add $x 1))", &["set x 1, print $x $(add $x 1)"]);
    check_configs("define($a b) (X($a))", &["b"]);
}

#[test]
fn command_line_wins_over_define() {
    let options =
        Options { defines: vec![("a".into(), "9".into()), ("p".into(), ")".into())], ..Options::default() };
    assert_eq!(flat("define($a 1, $b 2) X($a $b)", &options), "X@1 :: X(9 2);\n\n");
    // What would unbalance the text is quoted.
    assert_eq!(flat("X(1, $p)", &options), "X@1 :: X(1, \")\");\n\n");
    // A parameter hides it.
    assert_eq!(flat("elementclass C { $a | X($a) } C(3)", &options), "C@1/X@1 :: X(3);\n\n");
}

#[test]
fn configuration_strings_come_through_unchanged() {
    let configs = [
        "a, b",
        " 12 ( nested ( deep ) ) ",
        "')', \"\\\")\", \\<29 3e 41>",
        "a // comment )\n, b",
        "/* ) */ a",
        "$(x), $x",
        "12/3456 98//x\n",
        "\"multi\n# line\"",
        "é, \u{1f600}",
    ];
    for config in configs {
        check_configs(&format!("X({config})"), &[config]);
    }
    check_configs("X(a\n# 7 \"f\"\nb)", &["a\n\nb"]);
}

#[test]
fn requirements() {
    check("require(package foo)", "require(package foo);");
    check(
        "require(foo); require(package \"a b\", bar)",
        "require(package foo);\nrequire(package \"a b\");\nrequire(package bar);",
    );
    check("require(compact_config) a :: A", "require(compact_config);\na :: A;");
    check("require()", "");
}

#[test]
fn known_classes_decide_what_a_name_means() {
    let options =
        Options { classes: ["Idle", "Discard", "lower"].map(String::from).to_vec(), ..Options::default() };
    assert_eq!(
        flat("Idle -> lower -> Discard", &options),
        "Idle@1 :: Idle;\nlower@2 :: lower;\nDiscard@3 :: Discard;\n\nIdle@1 -> lower@2\n    -> Discard@3;\n"
    );
    let error = flat("Idle -> Dicsard", &options);
    assert!(
        error.contains("undeclared element 'Dicsard'") && error.contains("did you mean `Discard`?"),
        "{error}"
    );
    let error = flat("elementclass X { -> X -> } Idle -> X -> Discard", &options);
    assert!(
        error.contains("not known inside its own definition") || error.contains("undeclared element 'X'"),
        "{error}"
    );
}

#[test]
fn spans_lead_back_to_the_source() {
    let text = "elementclass C { -> b :: B( one ) -> }\nIdle -> c :: C -> Discard";
    let parsed = load_str("test", text, &Options::default());
    let graph = parsed.graph.expect("no errors");
    let b = graph.elements.iter().find(|e| e.name == "c/b").expect("expanded");
    assert_eq!(parsed.sources.snippet(b.span), "b");
    assert_eq!(parsed.sources.snippet(b.class_span), "B");
    assert_eq!(b.config_span.map(|s| parsed.sources.snippet(s)), Some(" one "));
    assert_eq!(parsed.sources.snippet(b.span_in_config(&parsed.sources, 1, 3)), "one");
    for connection in &graph.connections {
        assert_eq!(parsed.sources.snippet(connection.span), "->");
    }
}

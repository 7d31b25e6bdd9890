// SPDX-License-Identifier: MIT OR Apache-2.0
//! What classes declare of capabilities is true of their elements, and classes over one type declare the same.

#[test]
fn classes_declare_the_capabilities_of_their_elements() {
    let registry = crate::registry();
    let mut missing = Vec::new();
    for class in registry.iter() {
        let element = (class.make)();
        let declared: Vec<&str> = class.capabilities.declared().collect();
        let own: Vec<&str> = class.capabilities.declared_for(&*element).collect();
        assert_eq!(own, declared, "{} declares capabilities of another type", class.name);
        for other in registry.iter() {
            let theirs = other.capabilities.declared_for(&*element).filter(|name| !declared.contains(name));
            missing.extend(theirs.map(|name| format!("{} lacks the {name} of {}", class.name, other.name)));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

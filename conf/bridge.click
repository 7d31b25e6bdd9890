// A learning bridge between two interfaces, which all workers run at once.
//
//   junctor run conf/bridge.click            on interfaces eth0 and eth1
//   junctor bench engine conf/bridge.click   on in-memory devices with this traffic, of 10000 stations:
// bench: eth0 from=02:00:00:01:00:00 to=02:00:00:02:00:00 stations=5000 flows=8192 length=60
// bench: eth1 from=02:00:00:02:00:00 to=02:00:00:01:00:00 stations=5000 flows=8192 length=60

bridge :: Bridge(AGEING 300);

FromDevice(eth0, PROMISC true) -> [0]bridge[0] -> ToDevice(eth0);
FromDevice(eth1, PROMISC true) -> [1]bridge[1] -> ToDevice(eth1);

module kubedelta.test/load

go 1.26.0

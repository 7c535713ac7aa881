// client-go's dynamic informer, which serves any resource, and franz-go.
package main

import (
	"kubedelta.test/client-go/bridge"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	bridge.Run(func(config *rest.Config) (cache.SharedIndexInformer, error) {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(bridge.Resource()).Informer(), nil
	})
}
